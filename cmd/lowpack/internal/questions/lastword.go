package questions

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// leastWord is the length of the shortest word that is asked for, in letters: few shorter ones carry a meaning.
const leastWord = 4

// lastWords asks for the last word of sentences, as LAMBADA does (Paperno et al. 2016, arXiv 1606.06031): of those that
// end in a word of at least four letters, and nothing but letters, that stands in the context too, in capitals or not.
// Five in six words of LAMBADA do. What follows the word is left out. Contexts of different words may overlap.
func lastWords(blocks [][]string) (list []Question) {
	for _, block := range blocks {
		for i, s := range block {
			begin, ok := passage(block, 0, i)
			start, word := cutWord(s)
			if !ok || word == "" {
				continue
			}
			context := strings.Join(append(block[begin:i:i], start), " ")
			if utf8.RuneCountInString(context) <= mostContext && mentions(context, word) {
				list = append(list, Question{Context: context, Endings: []string{word}})
			}
		}
	}
	return list
}

// cutWord splits a sentence before its last word; word is "" if that cannot be asked for.
func cutWord(sentence string) (start, word string) {
	at := strings.LastIndexByte(sentence, ' ')
	if at < 0 {
		return "", ""
	}
	word = strings.TrimRight(sentence[at+1:], ends+closers)
	isOther := func(r rune) bool { return !unicode.IsLetter(r) }
	if strings.ContainsFunc(word, isOther) || utf8.RuneCountInString(word) < leastWord {
		return "", ""
	}
	return sentence[:at], word
}

// mentions reports whether a word stands in a text.
func mentions(text, word string) bool {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}
