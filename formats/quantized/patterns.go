package quantized

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"

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

// glob is a pattern of Python's fnmatch for whole names: * stands for any characters, ? for one, [abc] and [a-c] for
// one of them, [!a] for one that is none of them. Nothing else is special: no slash, no backslash, and no bracket that
// is not closed.
type glob []globPart

// globPart stands for one character, or, as a star, for any number of them.
type globPart struct {
	star   bool
	not    bool      // characters outside of ranges
	ranges [][2]rune // first and last characters
}

// everyRune is the range of all characters.
var everyRune = [2]rune{0, unicode.MaxRune}

// parseGlob reads a pattern. There is none that cannot be read.
func parseGlob(text string) (g glob) {
	for rest := []rune(text); len(rest) > 0; rest = rest[1:] {
		switch c := rest[0]; c {
		case '*':
			g = append(g, globPart{star: true})
		case '?':
			g = append(g, globPart{ranges: [][2]rune{everyRune}})
		case '[':
			end := classEnd(rest)
			if end == 0 {
				g = append(g, globPart{ranges: [][2]rune{{c, c}}})
				continue
			}
			g = append(g, parseClass(rest[1:end]))
			rest = rest[end:]
		default:
			g = append(g, globPart{ranges: [][2]rune{{c, c}}})
		}
	}
	return g
}

// classEnd returns the place of the bracket that closes a class; 0 = none. One that comes first is a character of it.
func classEnd(text []rune) int {
	at := 1
	if at < len(text) && text[at] == '!' {
		at++
	}
	for at++; at < len(text); at++ {
		if text[at] == ']' {
			return at
		}
	}
	return 0
}

// parseClass reads what is between brackets.
func parseClass(text []rune) (p globPart) {
	chunks := classChunks(text)
	if first := chunks[0]; len(first) > 0 && first[0] == '!' {
		if p.not, chunks[0] = true, first[1:]; len(first) == 1 && len(chunks) > 1 {
			chunks = chunks[1:]
			chunks[0] = append([]rune{'-'}, chunks[0]...) // nothing is before this hyphen
		}
	}
	for i, chunk := range chunks {
		for _, c := range chunk {
			p.ranges = append(p.ranges, [2]rune{c, c})
		}
		if i > 0 {
			before := chunks[i-1]
			p.ranges = append(p.ranges, [2]rune{before[len(before)-1], chunk[0]})
		}
	}
	return p
}

// classChunks cuts a class at the hyphens that stand for ranges: those with a character before them, which the range
// before does not end with, and one behind. Where the last character of a chunk is above the first of the next, Python
// drops both and joins what is left, even if that begins with an exclamation mark then.
func classChunks(text []rune) (chunks [][]rune) {
	from, at := 0, 1
	if text[0] == '!' {
		at++
	}
	for at < len(text)-1 {
		if text[at] != '-' {
			at++
			continue
		}
		chunks, from, at = append(chunks, slices.Clone(text[from:at])), at+1, at+3
	}
	chunks = append(chunks, slices.Clone(text[from:]))
	for i := len(chunks) - 1; i > 0; i-- {
		if before := chunks[i-1]; before[len(before)-1] > chunks[i][0] {
			chunks[i-1] = append(before[:len(before)-1], chunks[i][1:]...)
			chunks = slices.Delete(chunks, i, i+1)
		}
	}
	return chunks
}

// match reports whether the pattern matches a whole name. What follows the last star that was passed is tried again
// one character later, which finds a match if there is one.
func (g glob) match(name string) bool {
	runes := []rune(name)
	star, from := -1, 0 // the last star, and where what follows it was tried
	at, i := 0, 0
	for i < len(runes) {
		switch {
		case at < len(g) && g[at].star:
			star, from = at, i
			at++
		case at < len(g) && g[at].matches(runes[i]):
			at, i = at+1, i+1
		case star >= 0:
			from++
			at, i = star+1, from
		default:
			return false
		}
	}
	for at < len(g) && g[at].star {
		at++
	}
	return at == len(g)
}

func (p globPart) matches(c rune) bool {
	in := slices.ContainsFunc(p.ranges, func(r [2]rune) bool { return r[0] <= c && c <= r[1] })
	return in != p.not
}
