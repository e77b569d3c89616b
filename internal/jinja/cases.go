package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Python's case mappings are Unicode's with all exceptions: ß becomes SS, a Σ that ends a word ς.

func upper(s string) string { return cases.Upper(language.Und).String(s) }

func lower(s string) string { return cases.Lower(language.Und).String(s) }

func fold(s string) string { return cases.Fold().String(s) }

// titleCase is one character at the beginning of a word.
func titleCase(c rune) string { return cases.Title(language.Und, cases.NoLower).String(string(c)) }

func capitalize(s string) string {
	c, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return titleCase(c) + lower(s[n:])
}

// title is the method of strings: a letter after another one is lower case, every other letter upper case.
func title(s string) string {
	small := lower(s) // knows where a word ends
	if utf8.RuneCountInString(small) != utf8.RuneCountInString(s) {
		small = strings.Map(unicode.ToLower, s)
	}
	var out strings.Builder
	inWord := false
	for _, c := range s {
		l, n := utf8.DecodeRuneInString(small)
		small = small[n:]
		if inWord {
			out.WriteRune(l)
		} else {
			out.WriteString(titleCase(c))
		}
		inWord = isCased(c)
	}
	return out.String()
}

// isCased reports whether c has a case (the property Cased of Unicode).
func isCased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// titleWords is the filter title, which recognizes words by the characters between them.
func titleWords(s string) string {
	var out strings.Builder
	for s != "" {
		n := strings.IndexFunc(s, func(c rune) bool { return !beginsWord(c) })
		if n < 0 {
			n = len(s)
		}
		out.WriteString(s[:n])
		s = s[n:]
		if n = strings.IndexFunc(s, beginsWord); n < 0 {
			n = len(s)
		}
		if n > 0 {
			c, size := utf8.DecodeRuneInString(s)
			out.WriteString(upper(string(c)) + lower(s[size:n]))
		}
		s = s[n:]
	}
	return out.String()
}

// beginsWord reports whether a word begins after c.
func beginsWord(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }
