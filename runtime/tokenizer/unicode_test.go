package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestInteropClasses renews the classes of characters.
func TestInteropClasses(t *testing.T) {
	scripts := slices.Sorted(maps.Keys(unicode.Scripts))
	interop.Recorded(t, "classes.txt", interop.Python(t, "transformers", "testdata/classes.py", scripts...))
}

// TestClasses: over all characters, a class of a regular expression, a pre-tokenizer and single_word have the
// characters that they have in the tokenizers library.
func TestClasses(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(classesText), "\n")[1:]
	if len(lines) < 200 {
		t.Fatalf("%d classes", len(lines))
	}
	for _, text := range lines {
		name, _, _ := strings.Cut(text, " ")
		if name == lowercaseMap {
			continue
		}
		got, want := used(t, name), recordedSet(name).build()
		if got.low != want.low || !slices.Equal(got.high, want.high) {
			t.Errorf("%s has other characters", name)
		}
	}
}

// used is a class as the tokenizer uses it.
func used(t *testing.T, name string) *class {
	switch name {
	case "NFC", "NFD", "NFKC", "NFKD":
		return changed(t, name)
	case wholeWordClass:
		return wholeWord()
	case numberClass, punctuationClass, "WhitespaceSplit":
		v, err := jsonread.Parse([]byte(`{"type":"`+name+`"}`), 100)
		if err != nil {
			t.Fatal(err)
		}
		chain, _, err := readSplitters(v)
		if err != nil {
			t.Fatal(err)
		}
		return chain[0].(divider).find.(*pattern).prog[0].class
	}
	p, err := compile("[" + name + "]+")
	if err != nil {
		t.Fatal(err)
	}
	return p.prog[0].class
}

// TestClassesAgainstGo: what Go's tables, of an older Unicode, say about a character that they know, the recorded ones say too.
func TestClassesAgainstGo(t *testing.T) {
	unassigned := recordedSet(`\p{Cn}`).build()
	for _, name := range strings.Fields("L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co") {
		set, ok := propertySet(name)
		if !ok {
			t.Errorf(`no \p{%s}`, name)
			continue
		}
		c := set.build()
		rangetable.Visit(unicode.Categories[name], func(r rune) {
			const moved = 0x1171e // Unicode 16 says Mc, and was Mn
			if !c.has(r) && !unassigned.has(r) && r != moved {
				t.Errorf(`\p{%s} lacks %U`, name, r)
			}
		})
	}
}

// TestNewCharacters: characters that Go's tables do not know, a name that is not a property, and lower case.
func TestNewCharacters(t *testing.T) {
	for _, c := range []struct {
		pattern string
		r       rune
		want    bool
	}{
		{`\p{S}`, 0x1f8b6, true}, {`\p{L}`, 0x2ebf0, true}, {`\p{Han}`, 0x2ebf0, true}, {`\p{N}`, 0x10d40, true}, {`\d`, 0x10d40, true},
		{`\p{N}`, 0x11de0, false}, {`\w`, 0x200d, false}, {`\p{Cn}`, 0x1f8b6, false},
	} {
		p, err := compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.prog[0].class.has(c.r); got != c.want {
			t.Errorf("%s has %U: %v", c.pattern, c.r, got)
		}
	}
	for _, name := range []string{"", "Digits", "Whitespace", "w", "Nobody"} {
		if _, ok := propertySet(name); ok {
			t.Errorf("%q is a property", name)
		}
	}
	if got, _ := (lowercase{}).normalize("AÉİ\ua7dc\u1c89ẞ"); got != "aéi̇\u019b\u1c8aß" {
		t.Errorf("%+q", got)
	}
	if !isWord(0x200d) || !isWord(0x10d40) || isWord(0x1f8b6) {
		t.Error("single_word")
	}
}

// changed are the characters that a normalizer changes.
func changed(t *testing.T, form string) *class {
	v, err := jsonread.Parse([]byte(`{"type":"`+form+`"}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readNormalizers(v)
	if err != nil {
		t.Fatal(err)
	}
	var set runeSet
	for r := range unicode.MaxRune + 1 {
		if s := string(r); utf8.ValidRune(r) {
			if got, _ := list.normalize(s); got != s {
				set = append(set, runeRange{r, r})
			}
		}
	}
	return set.build()
}
