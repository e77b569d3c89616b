package tokenizer

import (
	"fmt"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// addedToken is a token that is matched in the text before any other processing.
type addedToken struct {
	id         int
	content    string
	special    bool // control token: left out when text is shown
	singleWord bool // not inside a word
	lstrip     bool // includes the white space before it
	rstrip     bool // includes the white space after it
	normalized bool // matched in the normalized text, in its own normalized form
}

const maxAdded = 1 << 16

// finder finds added tokens: leftmost first, the longest among these.
type finder struct {
	trie   trie
	tokens []addedToken
	first  [256]bool // first bytes of tokens
	// special: one of them is a control token, which untrusted text of a conversation must not become.
	special bool
}

func (f *finder) add(t addedToken, key string) error {
	if key == "" {
		return fmt.Errorf("%w: added token %d is empty", pack.ErrCorrupt, t.id)
	}
	if len(f.tokens) >= maxAdded {
		return fmt.Errorf("%w: more than %d added tokens", pack.ErrLimit, maxAdded)
	}
	f.tokens = append(f.tokens, t)
	f.first[key[0]] = true
	f.special = f.special || t.special
	return f.trie.add([]byte(key), int32(len(f.tokens)-1))
}

// next returns the first added token in text[from:] with the range that it covers; nil when there is none. A control
// token is matched only where the text has no mark. White space that belongs to a token is included from floor on. The
// search for the next one starts at after, before the white space that follows this one: an added token of spaces can
// match there again.
func (f *finder) next(text marked.Text, from, floor int) (t *addedToken, start, end, after int) {
	s := text.S
	if len(f.tokens) == 0 {
		return nil, 0, 0, 0
	}
	for i := from; i < len(s); i++ {
		if !f.first[s[i]] {
			continue
		}
		length, which := 0, int32(-1)
		f.trie.walk(s[i:], func(n int, value int32) {
			if !f.tokens[value].special || !text.Marked(i, i+n) {
				length, which = n, value
			}
		})
		if which < 0 {
			continue
		}
		t = &f.tokens[which]
		start, end, after = i, i+length, i+length
		if t.singleWord && (wordBefore(s, start) || wordAfter(s, end)) {
			i = end - 1
			continue
		}
		if t.lstrip {
			start = max(floor, spaceBefore(s, start))
		}
		if t.rstrip {
			end = spaceAfter(s, end)
		}
		return t, start, end, after
	}
	return nil, 0, 0, 0
}

// spaceBefore returns the start of the white space that ends at i.
func spaceBefore(s string, i int) int {
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:i])
		if !unicode.IsSpace(r) {
			break
		}
		i -= n
	}
	return i
}

// spaceAfter returns the end of the white space that starts at i.
func spaceAfter(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsSpace(r) {
			break
		}
		i += n
	}
	return i
}

func wordBefore(s string, i int) bool {
	r, n := utf8.DecodeLastRuneInString(s[:i])
	return n > 0 && isWord(r)
}

func wordAfter(s string, i int) bool {
	r, n := utf8.DecodeRuneInString(s[i:])
	return n > 0 && isWord(r)
}

// wholeWord is the set of characters that must not be adjacent to a token with single_word.
var wholeWord = sync.OnceValue(func() *chars.Class { return chars.Recorded(chars.WholeWord).Class() })

func isWord(r rune) bool { return wholeWord().Has(r) }
