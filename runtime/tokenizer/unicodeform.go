package tokenizer

import (
	"slices"
	"unicode/utf8"

	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
	"golang.org/x/text/unicode/norm"
)

// unicodeForm is NFC, NFD, NFKC or NFKD. The tokenizers library implements an older Unicode than Go: newer characters
// stay as they are, and are neither reordered nor composed with others. And Go inserts a joiner (U+034F) after every 30
// combining characters, for streaming.
type unicodeForm struct {
	norm.Form
	changed   *chars.Class // characters that the form changes in the library
	combining *chars.Class // characters that combine with a preceding one in the library
}

// unicodeForms maps the names of the forms, which are also the names of the classes of characters that they change.
var unicodeForms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

func newUnicodeForm(name string) unicodeForm {
	return unicodeForm{unicodeForms[name], chars.Recorded(name).Class(), chars.Recorded(chars.Combining).Class()}
}

// fewCombining is the number of consecutive combining characters up to which Go's form is used: each is decomposed to
// at most four, and the preceding character to four, which are no more than Go's 30.
const fewCombining = 6

func (f unicodeForm) normalize(s string) (string, error) {
	if f.IsNormalString(s) {
		return s, nil
	}
	var out []byte
	from, run, longest := 0, 0, 0
	flush := func(to int) {
		if longest > fewCombining {
			out = append(out, f.byDefinition(s[from:to])...)
		} else {
			out = append(out, f.String(s[from:to])...)
		}
		run, longest = 0, 0
	}
	for i, n := 0, 0; i < len(s); i += n {
		var r rune
		switch r, n = utf8.DecodeRuneInString(s[i:]); {
		case r < utf8.RuneSelf:
			run = 0
		case r == utf8.RuneError, f.isNew(s[i:i+n], r):
			flush(i)
			out, from = append(out, s[i:i+n]...), i+n
		case !f.PropertiesString(s[i:]).BoundaryBefore():
			run++
			longest = max(longest, run)
		default:
			run = 0
		}
	}
	flush(len(s))
	return string(out), nil
}

// isNew reports whether a character, also given as s, is newer than the library's Unicode and affected by the form.
func (f unicodeForm) isNew(s string, r rune) bool {
	combines := !f.PropertiesString(s).BoundaryBefore()
	return !f.changed.Has(r) && (!f.IsNormalString(s) || combines && !f.combining.Has(r))
}

// byDefinition computes the form without a joiner (Unicode Standard Annex 15): decomposed, sorted by combining class,
// composed.
func (f unicodeForm) byDefinition(s string) string {
	decomposition := map[norm.Form]norm.Form{norm.NFC: norm.NFD, norm.NFKC: norm.NFKD}
	decomposed, composes := decomposition[f.Form]
	if !composes {
		decomposed = f.Form
	}
	var chars []rune
	for _, r := range s {
		chars = append(chars, []rune(decomposed.String(string(r)))...)
	}
	for i := 0; i < len(chars); {
		end := i
		for end < len(chars) && combiningClassOf(chars[end]) > 0 {
			end++
		}
		slices.SortStableFunc(chars[i:end], func(a, b rune) int {
			return int(combiningClassOf(a)) - int(combiningClassOf(b))
		})
		i = end + 1
	}
	if composes {
		chars = composed(chars)
	}
	return string(chars)
}

func combiningClassOf(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// composed joins, in place, characters with the preceding starter if a single character represents both and nothing
// between them blocks it.
func composed(chars []rune) []rune {
	out := chars[:0]
	starter, last := -1, uint8(0) // last: the combining class of the character last added after the starter
	for _, r := range chars {
		class := combiningClassOf(r)
		if starter >= 0 && (last == 0 || last < class) {
			if both := []rune(norm.NFC.String(string([]rune{out[starter], r}))); len(both) == 1 {
				out[starter] = both[0]
				continue
			}
		}
		if last = class; class == 0 {
			starter = len(out)
		}
		out = append(out, r)
	}
	return out
}
