package tokenizer

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// classesText is what the tokenizers library takes for a letter, a number, punctuation …: a class a line, recorded by
// testdata/classes.py. Go's own tables would not do. Theirs are of newer versions of Unicode, and of an older one for
// Punctuation; and tokens must not depend on the version of Go that compiled this program.
//
//go:embed classes.txt
var classesText string

// Names of lines; those of categories and scripts are written as in a regular expression: \p{L}.
const (
	wordClass        = `\w`
	spaceClass       = `\s`
	digitClass       = `\p{Nd}`
	wholeWordClass   = "Whitespace" // what this pre-tokenizer takes for words, and what a token with single_word must not touch
	punctuationClass = "Punctuation"
	numberClass      = "Digits"
	lowercaseMap     = "Lowercase"
	combiningClass   = "Combining" // what a Unicode form may put in order or compose
)

// line returns the fields of a line behind its name; nil if there is none.
func line(name string) []string {
	_, rest, _ := strings.Cut(classesText, "\n"+name+" ")
	fields, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(fields)
}

// recordedSet returns the class of that name; empty if there is none.
func recordedSet(name string) (set runeSet) {
	for _, f := range line(name) {
		lo, hi, isRange := strings.Cut(f, "-")
		if !isRange {
			hi = lo
		}
		set = append(set, runeRange{hexRune(lo), hexRune(hi)})
	}
	return set
}

// propertySet returns the set of \p{name}: a general category or a script.
func propertySet(name string) (runeSet, bool) {
	set := recordedSet(`\p{` + name + `}`)
	return set, set != nil
}

func hexRune(s string) rune {
	n, err := strconv.ParseUint(s, 16, 21)
	if err != nil {
		panic(fmt.Sprintf("classes.txt: %v", err)) // a file of the program
	}
	return rune(n)
}

// wholeWord is what a token with single_word must not touch.
var wholeWord = sync.OnceValue(func() *class { return recordedSet(wholeWordClass).build() })

// lower maps every character whose lower case is one other character.
var lower = sync.OnceValue(func() map[rune]rune {
	pairs := map[rune]rune{}
	for _, f := range line(lowercaseMap) {
		from, to, _ := strings.Cut(f, "=")
		pairs[hexRune(from)] = hexRune(to)
	}
	return pairs
})
