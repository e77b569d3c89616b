// Package printable makes text from untrusted files safe to print.
//
// Names of tensors, paths, values of configurations and errors about them can hold control characters, with which a
// terminal can be made to lie: to move the cursor, hide a line, or show text in another order.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text writes control characters except \n and \t, marks of the direction of writing, and bytes that are not UTF-8 as
// escape sequences: \u001b, or \x9b for a byte. In JSON such characters stand inside strings, where \u001b means the
// same. A text without any is returned as it is.
func Text(text []byte) []byte {
	var out []byte
	from := 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if !harmful(r, n) {
			at += n
			continue
		}
		out = append(out, text[from:at]...)
		if r == utf8.RuneError {
			out = fmt.Appendf(out, `\x%02x`, text[at])
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		at += n
		from = at
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

func harmful(r rune, size int) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError:
		return size == 1
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// breaks writes what moves on a terminal as Go writes it. It is built once: progress is told hundreds of times.
var breaks = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Line is a text as part of a line: like Text, and it cannot begin a line of its own.
func Line(s string) string { return breaks.Replace(string(Text([]byte(s)))) }
