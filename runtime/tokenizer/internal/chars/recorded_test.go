package chars_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
	"golang.org/x/text/unicode/rangetable"
)

// TestInteropClasses regenerates the character classes.
func TestInteropClasses(t *testing.T) {
	scripts := slices.Sorted(maps.Keys(unicode.Scripts))
	interop.Recorded(t, "classes.txt", interop.Python(t, "transformers", "testdata/classes.py", scripts...))
}

// TestClassesAgainstGo: for characters that Go's tables, of an older Unicode, know, the recorded classes agree with
// them.
func TestClassesAgainstGo(t *testing.T) {
	unassigned := chars.Recorded(`\p{Cn}`).Class()
	const categories = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co"
	for _, name := range strings.Fields(categories) {
		set, ok := chars.Property(name)
		if !ok {
			t.Errorf(`no \p{%s}`, name)
			continue
		}
		c := set.Class()
		rangetable.Visit(unicode.Categories[name], func(r rune) {
			const moved = 0x1171e // Mc in Unicode 16, formerly Mn
			if !c.Has(r) && !unassigned.Has(r) && r != moved {
				t.Errorf(`\p{%s} lacks %U`, name, r)
			}
		})
	}
}

// TestNewCharacters: characters that Go's tables do not know, and names that are not properties.
func TestNewCharacters(t *testing.T) {
	for _, c := range []struct {
		name string
		r    rune
		want bool
	}{
		{`\p{S}`, 0x1f8b6, true}, {`\p{L}`, 0x2ebf0, true}, {`\p{Han}`, 0x2ebf0, true}, {`\p{N}`, 0x10d40, true},
		{chars.Digit, 0x10d40, true}, {`\p{N}`, 0x11de0, false}, {chars.Word, 0x200d, false},
		{`\p{Cn}`, 0x1f8b6, false},
	} {
		if got := chars.Recorded(c.name).Class().Has(c.r); got != c.want {
			t.Errorf("%s has %U: %v", c.name, c.r, got)
		}
	}
	for _, name := range []string{"", "Digits", "Whitespace", "w", "Nobody"} {
		if _, ok := chars.Property(name); ok {
			t.Errorf("%q is a property", name)
		}
	}
}
