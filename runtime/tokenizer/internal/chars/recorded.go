// Package chars implements sets of characters: the classes of the tokenizers library, and those of patterns.
package chars

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// classesText holds the tokenizers library's classes of letters, numbers, punctuation …: one class per line, recorded
// by testdata/classes.py. Go's own tables would not do: the library uses newer versions of Unicode, an older one for
// Punctuation, and tokens must not depend on the version of Go that compiled this program.
//
//go:embed classes.txt
var classesText string

// Names of classes; categories and scripts are named as in regular expressions (\p{L}), and the class of characters
// that a Unicode form changes has the name of the form (NFC).
const (
	Word        = `\w`
	Space       = `\s`
	Digit       = `\p{Nd}`
	WholeWord   = "Whitespace" // words of this pre-tokenizer, and what must not be adjacent to a token with single_word
	Punctuation = "Punctuation"
	Number      = "Digits"
	Combining   = "Combining" // characters that a Unicode form may reorder or compose
)

// line returns the fields of a line after its name; nil if there is none.
func line(name string) []string {
	_, rest, _ := strings.Cut(classesText, "\n"+name+" ")
	fields, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(fields)
}

// Recorded returns the class of that name; empty if there is none.
func Recorded(name string) (set Set) {
	for _, f := range line(name) {
		lo, hi, isRange := strings.Cut(f, "-")
		if !isRange {
			hi = lo
		}
		set = append(set, Range{hexRune(lo), hexRune(hi)})
	}
	return set
}

// Property returns the set of \p{name}: a general category or a script.
func Property(name string) (Set, bool) {
	set := Recorded(`\p{` + name + `}`)
	return set, set != nil
}

func hexRune(s string) rune {
	n, err := strconv.ParseUint(s, 16, 21)
	if err != nil {
		panic(fmt.Sprintf("classes.txt: %v", err)) // an embedded file
	}
	return rune(n)
}

// Lower maps every character to its lower case if that is a single other character.
var Lower = sync.OnceValue(func() map[rune]rune {
	pairs := map[rune]rune{}
	for _, f := range line("Lowercase") {
		from, to, _ := strings.Cut(f, "=")
		pairs[hexRune(from)] = hexRune(to)
	}
	return pairs
})
