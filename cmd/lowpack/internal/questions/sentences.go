package questions

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	openers = `"'“‘„‚«‹([{「『（`
	closers = `"'”’“‘»›)]}」』）`
	ends    = ".!?…。！？"
	pauses  = ":;,-–—" // end a sentence where they end a paragraph
)

// wide is the end of a sentence in scripts without spaces.
var wide = regexp.MustCompile(`[。！？][」』”’）]*`)

// Sentences cuts a text into sentences, in blocks of sentences that follow each other.
//
// Paragraphs end at empty lines. Within them, white space of any length is one space. A paragraph that does not end in
// a mark (a heading, a line of a table) is left out, and ends a block.
func Sentences(text string) (blocks [][]string) {
	block := []string{}
	for _, p := range paragraphs(text) {
		if list := sentences(p); list != nil {
			block = append(block, list...)
			continue
		}
		blocks, block = append(blocks, block), nil
	}
	return append(blocks, block)
}

// paragraphs returns the words of every paragraph.
func paragraphs(text string) (list [][]string) {
	text = strings.TrimPrefix(strings.ToValidUTF8(text, "\uFFFD"), "\uFEFF")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	words := []string(nil)
	for line := range strings.Lines(text + "\n\n") {
		found := strings.Fields(wide.ReplaceAllString(line, "$0 "))
		if len(found) == 0 && words != nil {
			list, words = append(list, words), nil
		}
		words = append(words, found...)
	}
	return list
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
			list = append(list, strings.Join(words[begin:i+1], " "))
			begin = i + 1
		}
	}
	return list
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
