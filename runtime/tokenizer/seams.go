package tokenizer

import (
	"fmt"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

const (
	// longWord is the maximum length, in bytes, of text that is encoded at once if the vocabulary allows a cut: scratch
	// memory is 32 bytes per byte of it. No token is longer.
	longWord = maxTokenBytes
	// maxWord bounds a run of text without a place to cut. Its merges depend on each other from end to end.
	maxWord = 1 << 22
)

// seams says for every two bytes whether a rule joins a token that ends in the first to one that starts with the
// second. If none does, a word may be cut there without changing its tokens: a token that spans this place would have
// been joined there.
type seams [256 * 256 / 64]uint64

func (b *bpe) findSeams() *seams {
	s := new(seams)
	for _, rule := range b.merges.slots {
		if rule.pair == 0 {
			continue
		}
		left, right := b.vocab.bytes(int(rule.pair>>32)), b.vocab.bytes(int(uint32(rule.pair)-1))
		at := int(left[len(left)-1])<<8 | int(right[0])
		s[at/64] |= 1 << (at % 64)
	}
	return s
}

func (s *seams) joins(a, b byte) bool {
	at := int(a)<<8 | int(b)
	return s[at/64]>>(at%64)&1 == 1
}

// cuttable reports whether a word may be cut before its byte i. It may not next to a byte or character without a token:
// dropped ones make their neighbors adjacent, and a run of unknown ones may be one token.
func (b *bpe) cuttable(word string, i int) bool {
	before, after := word[i-1], word[i]
	if b.bytewise {
		return !b.seams.joins(before, after) && b.byteID[before] >= 0 && b.byteID[after] >= 0
	}
	return utf8.RuneStart(after) && !b.seams.joins(before, after) && (b.allBytes || b.tokensAround(word, i))
}

// tokensAround reports whether the characters before and after position i are tokens.
func (b *bpe) tokensAround(word string, i int) bool {
	_, n := utf8.DecodeLastRuneInString(word[:i])
	left, _ := b.symbol(word[i-n:])
	right, _ := b.symbol(word[i:])
	return left >= 0 && right >= 0
}

// piece returns the length of the prefix of a word to encode next: all of a short word; otherwise up to the last place
// to cut within long, or the first one after it.
func (b *bpe) piece(word string, long int) (int, error) {
	if len(word) <= long {
		return len(word), nil
	}
	for i := long; i > 0; i-- {
		if b.cuttable(word, i) {
			return i, nil
		}
	}
	for i := long + 1; i < len(word) && i <= maxWord; i++ {
		if b.cuttable(word, i) {
			return i, nil
		}
	}
	return len(word), checkWord(len(word))
}

func checkWord(n int) error {
	if n > maxWord {
		return fmt.Errorf("%w: a word of %d bytes, more than %d, in which the vocabulary has no place to cut",
			pack.ErrLimit, n, maxWord)
	}
	return nil
}
