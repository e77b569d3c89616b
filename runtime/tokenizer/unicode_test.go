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
	case combiningClass:
		return combining()
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

// combining are the characters that the forms put in order, or compose with one in front of them, as testdata/classes.py finds them.
func combining() *class {
	form := func(name string) func(string) string {
		f := newUnicodeForm(name)
		return func(s string) string { s, _ = f.normalize(s); return s }
	}
	nfc, nfd := form("NFC"), form("NFD")
	var set runeSet
	for r := range unicode.MaxRune + 1 {
		if !utf8.ValidRune(r) {
			continue
		}
		c := string(r)
		d := nfd(c)
		if nfd("\u0345"+c) != "\u0345"+d || c == d && nfd(c+"\u0334") != c+"\u0334" {
			set = append(set, runeRange{r, r})
		}
		if c != d && nfc(c) == c {
			last, _ := utf8.DecodeLastRuneInString(d)
			set = append(set, runeRange{last, last})
		}
	}
	return set.build()
}

// TestUnicodeForms: texts become what tokenizers 0.23.3 makes of them, and bytes that are not UTF-8 stay: no joiner stands between many characters that combine, and
// those of a newer Unicode than the library's have no part in the form.
func TestUnicodeForms(t *testing.T) {
	many := strings.Repeat
	for _, c := range []struct{ form, text, want string }{
		{"NFC", "a" + many("\u0301", 40), "á" + many("\u0301", 39)},
		{"NFC", "o" + many("\u0304\u0328", 20) + "e\u0301", "ǭ" + many("\u0328", 19) + many("\u0304", 19) + "é"},
		{"NFD", many("ᾢ", 2) + many("\u0344", 20), "ω\u0313\u0300\u0345ω\u0313\u0300" + many("\u0308\u0301", 20) + "\u0345"},
		{"NFC", "e\u0301a" + many("\u0346", 8) + "\u0301", "éa" + many("\u0346", 8) + "\u0301"},
		{"NFKC", many("\uff9e", 33), many("\u3099", 33)},
		{"NFC", many("\u0301\xff", 40), many("\u0301\xff", 40)},
		{"NFC", many("\u0316", 40) + "\xffe\u0301", many("\u0316", 40) + "\xffé"},
		{"NFC", "\u073f\u07fd", "\u073f\u07fd"},
		{"NFC", "a\u07fd\u0301", "a\u07fd\u0301"},
		{"NFC", "\U00011935\U00011930", "\U00011935\U00011930"},
		{"NFKC", "\U0001e063\u0485", "\U0001e063\u0485"},
	} {
		if got, err := newUnicodeForm(c.form).normalize(c.text); got != c.want || err != nil {
			t.Errorf("%s of %+q\ngot  %+q, %v\nwant %+q", c.form, c.text, got, err, c.want)
		}
	}
}
