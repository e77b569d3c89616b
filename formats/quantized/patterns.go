package quantized

import (
	"regexp"
	"regexp/syntax"

	"github.com/lowpack/lowpack/pack"
)

// Bounds of regular expressions. A compiled one holds about 100 bytes per step.
const (
	maxPattern = 1024    // bytes of one
	maxSteps   = 1 << 20 // of all patterns of a configuration
)

// never matches no name.
var never = regexp.MustCompile("$^")

// compile compiles a regular expression between two texts. It returns never if it fails.
func (k *keys) compile(before, text, after string) *regexp.Regexp {
	if len(text) > maxPattern {
		k.fail(pack.ErrUnsupported, "pattern %.100q has %d bytes; at most %d are supported", text, len(text),
			maxPattern)
	}
	if k.err != nil {
		return never
	}
	tree, err := syntax.Parse(before+text+after, syntax.Perl)
	if err != nil {
		k.fail(pack.ErrUnsupported, "cannot parse pattern %.100q", text)
		return never
	}
	if k.steps += steps(tree); k.steps > maxSteps {
		k.fail(pack.ErrLimit, "its patterns have more than %d steps with %.100q: name modules instead", maxSteps, text)
		return never
	}
	return regexp.MustCompile(before + text + after) // only parsing fails
}

// steps returns a bound of the size of a compiled pattern: its characters, each as often as it is repeated. The parser
// limits what nested repetitions multiply to to 1000.
func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
