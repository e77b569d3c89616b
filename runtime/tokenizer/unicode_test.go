package tokenizer

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// TestClasses: over all characters, a normalizer, a pre-tokenizer and single_word use the same classes as the
// tokenizers library.
func TestClasses(t *testing.T) {
	for name, got := range map[string]*chars.Class{
		"NFC": changed(t, "NFC"), "NFD": changed(t, "NFD"), "NFKC": changed(t, "NFKC"), "NFKD": changed(t, "NFKD"),
		chars.Combining: combining(), chars.WholeWord: wholeWord(), chars.Number: split(t, chars.Number),
		chars.Punctuation: split(t, chars.Punctuation), "WhitespaceSplit": split(t, "WhitespaceSplit"),
	} {
		if !reflect.DeepEqual(got, chars.Recorded(name).Class()) {
			t.Errorf("%s has other characters", name)
		}
	}
}

// split returns the characters that a pre-tokenizer splits at.
func split(t *testing.T, name string) *chars.Class {
	v, err := jsonread.Parse([]byte(`{"type":"`+name+`"}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	splitters, _, err := readSplitters(v)
	if err != nil {
		t.Fatal(err)
	}
	var set chars.Set
	for r := range unicode.MaxRune + 1 {
		splitters[0].(divider).find.Each(string(r), func(_ string, match bool) error {
			if match {
				set = append(set, chars.Of(r, r)...)
			}
			return nil
		})
	}
	return set.Class()
}

// TestNewCharacters: lower case and words of characters that are missing in Go's tables.
func TestNewCharacters(t *testing.T) {
	if got, _ := (lowercase{}).normalize("AÉİ\ua7dc\u1c89ẞ"); got != "aéi̇\u019b\u1c8aß" {
		t.Errorf("%+q", got)
	}
	if !isWord(0x200d) || !isWord(0x10d40) || isWord(0x1f8b6) {
		t.Error("single_word")
	}
}

// changed returns the characters that a normalizer changes.
func changed(t *testing.T, form string) *chars.Class {
	v, err := jsonread.Parse([]byte(`{"type":"`+form+`"}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readNormalizers(v)
	if err != nil {
		t.Fatal(err)
	}
	var set chars.Set
	for r := range unicode.MaxRune + 1 {
		if s := string(r); utf8.ValidRune(r) {
			if got, _ := list.normalize(s); got != s {
				set = append(set, chars.Of(r, r)...)
			}
		}
	}
	return set.Class()
}

// combining returns the characters that the forms reorder, or compose with a preceding one, as testdata/classes.py
// finds them.
func combining() *chars.Class {
	form := func(name string) func(string) string {
		f := newUnicodeForm(name)
		return func(s string) string { s, _ = f.normalize(s); return s }
	}
	nfc, nfd := form("NFC"), form("NFD")
	var set chars.Set
	for r := range unicode.MaxRune + 1 {
		if !utf8.ValidRune(r) {
			continue
		}
		c := string(r)
		d := nfd(c)
		if nfd("\u0345"+c) != "\u0345"+d || c == d && nfd(c+"\u0334") != c+"\u0334" {
			set = append(set, chars.Of(r, r)...)
		}
		if c != d && nfc(c) == c {
			last, _ := utf8.DecodeLastRuneInString(d)
			set = append(set, chars.Of(last, last)...)
		}
	}
	return set.Class()
}

// TestUnicodeForms: texts are normalized as by tokenizers 0.23.3, and invalid UTF-8 is kept: no joiner is inserted
// between many combining characters, and characters newer than the library's Unicode are not affected by the form.
func TestUnicodeForms(t *testing.T) {
	many := strings.Repeat
	for _, c := range []struct{ form, text, want string }{
		{"NFC", "a" + many("\u0301", 40), "á" + many("\u0301", 39)},
		{"NFC", "o" + many("\u0304\u0328", 20) + "e\u0301", "ǭ" + many("\u0328", 19) + many("\u0304", 19) + "é"},
		{"NFD", many("ᾢ", 2) + many("\u0344", 20),
			"ω\u0313\u0300\u0345ω\u0313\u0300" + many("\u0308\u0301", 20) + "\u0345"},
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
