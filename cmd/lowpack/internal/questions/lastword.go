package questions

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leastWord is the length of the shortest word that is asked for, in letters: few shorter ones carry a meaning.
const leastWord = 4

// lastWords asks for the last word of sentences, as LAMBADA does (Paperno et al. 2016, arXiv 1606.06031): of those that
// end in a word of at least four letters, and nothing but letters, that stands in the context too, in capitals or not.
// Five in six words of LAMBADA do. What follows the word is left out.
func lastWords(blocks iter.Seq[[]string]) (list []Question) {
	for block := range blocks {
		first := 0
		for i, s := range block {
			begin, ok := passage(block, first, i)
			start, word := cutWord(s)
			if !ok || word == "" {
				continue
			}
			context := join(append(block[begin:i:i], start))
			if utf8.RuneCountInString(context) <= mostContext && mentions(context, word) {
				list = append(list, Question{Context: context + " ", Endings: []string{word}})
				first = i + 1
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
