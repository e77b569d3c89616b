package questions

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	openers = `"'“‘„‚«‹([{「『（¿¡—–`
	closers = `"'”’“‘»›)]}」』）`
	ends    = ".!?…。！？"
	pauses  = ":;,-–—" // end a sentence where they end a paragraph
)

// wide is the end of a sentence in scripts without spaces.
var wide = regexp.MustCompile(`[。！？]+…*[」』”’）]*`)

// Sentences cuts a text into sentences, in blocks of sentences that follow each other.
//
// Paragraphs end at empty lines. Within them, white space of any length is one space, and none beside a character of a
// script without spaces. A paragraph that does not end in a mark (a heading, a line of a table) is left out, and ends a
// block.
func Sentences(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var block []string
		for p := range paragraphs(text) {
			if list := sentences(p); list != nil {
				block = append(block, list...)
				continue
			}
			if block != nil && !yield(block) {
				return
			}
			block = nil
		}
		if block != nil {
			yield(block)
		}
	}
}

// paragraphs returns the words of every paragraph.
func paragraphs(text string) iter.Seq[[]string] {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\uFEFF"))
	text = wide.ReplaceAllString(text, "$0 ")
	return func(yield func([]string) bool) {
		words := []string(nil)
		for line := range strings.Lines(text + "\n\n") {
			found := strings.Fields(line)
			if len(found) == 0 && words != nil {
				if !yield(words) {
					return
				}
				words = nil
			}
			words = append(words, found...)
		}
	}
}

// sentences cuts a paragraph; nil if it does not end in a mark.
func sentences(words []string) (list []string) {
	last := len(words) - 1
	if !closes(words[last], ends+pauses) {
		return nil
	}
	begin := 0
	for i, w := range words {
		if i == last || closes(w, ends) && !abbreviates(w) && opens(words[i+1]) {
			list = append(list, join(words[begin:i+1]))
			begin = i + 1
		}
	}
	return list
}

// join puts parts of a text together, each with the space before it.
func join(parts []string) string {
	var text strings.Builder
	for i, part := range parts {
		if i > 0 {
			text.WriteString(space(parts[i-1], part))
		}
		text.WriteString(part)
	}
	return text.String()
}

// space returns what is between two parts of a text: nothing beside a character of a script without spaces, whatever
// quotes and brackets there are between it and the other part.
func space(before, after string) string {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, closers))
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, openers))
	if unicode.Is(spaceless, last) || unicode.Is(spaceless, first) {
		return ""
	}
	return " "
}

// spaceless has the characters of Chinese and Japanese, with their punctuation and wide forms: Unicode's blocks.
var spaceless = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2e80, Hi: 0x312f, Stride: 1}, // radicals, punctuation, kana, bopomofo
		{Lo: 0x3190, Hi: 0x9fff, Stride: 1}, // kanbun to unified ideographs
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, // compatibility ideographs
		{Lo: 0xff01, Hi: 0xff9f, Stride: 1}, // wide forms, narrow katakana
	},
	R32: []unicode.Range32{{Lo: 0x20000, Hi: 0x3ffff, Stride: 1}}, // extensions
}

// closes reports whether a word ends in one of these marks, or in quotes or brackets behind one.
func closes(word, marks string) bool {
	r, size := utf8.DecodeLastRuneInString(strings.TrimRight(word, closers))
	return size > 0 && strings.ContainsRune(marks, r)
}

// opens reports whether a word can begin a sentence: its first letter is not a small one.
func opens(word string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(word, openers))
	return unicode.IsLetter(r) && !unicode.IsLower(r) || unicode.IsDigit(r)
}

// abbreviates reports whether a period is more likely that of a title or an initial (Mrs., St., U.S.) than that of a
// sentence: a capital and at most two other letters precede it. "Tom." counts too, and does not end a sentence; that
// makes a longer sentence, where the other error would make a wrong one.
func abbreviates(word string) bool {
	word = strings.TrimLeft(word, openers)
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(r) && strings.HasSuffix(word, ".") &&
		utf8.RuneCountInString(strings.ReplaceAll(word, ".", "")) <= 3
}
