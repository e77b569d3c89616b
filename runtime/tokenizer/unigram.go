package tokenizer

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// unigram turns words into the sequence of tokens with the largest sum of scores (Viterbi).
type unigram struct {
	vocab      *vocab
	scores     []float64 // by id
	trie       trie
	unk        int // id of the unknown token
	unkScore   float64
	byteTokens bool       // a run of unknown characters becomes bytes, if all of them have tokens:
	byteID     [256]int32 // −1 = none
}

// unkPenalty is how far the score of an unknown character is below the worst token (SentencePiece).
const unkPenalty = 10

// lattice is the best way to reach one position of a word.
type lattice struct {
	score float64
	from  int32
	id    int32
}

func newUnigram(v *vocab, scores []float64, unk int, fallback bool) (*unigram, error) {
	u := &unigram{vocab: v, scores: scores, unk: unk, byteTokens: fallback}
	if fallback {
		u.byteID = fallbackIDs(v)
	}
	worst := math.Inf(1)
	for id, s := range scores {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("%w: the score of token %d is %v", pack.ErrCorrupt, id, s)
		}
		worst = min(worst, s)
		if err := u.trie.add(v.bytes(id), int32(id)); err != nil {
			return nil, err
		}
	}
	u.unkScore = worst - unkPenalty
	return u, nil
}

func (u *unigram) encode(dst []int, word string, w *workspace) ([]int, error) {
	if err := checkWord(len(word)); err != nil {
		return dst, err
	}
	best := grown(w.lattice, len(word)+1)
	w.lattice = best
	for i := range best {
		best[i] = lattice{score: math.Inf(-1)}
	}
	best[0].score = 0
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		single := false
		here := best[i].score
		u.trie.walk(word[i:], func(length int, id int32) {
			if s := here + u.scores[id]; s > best[i+length].score {
				best[i+length] = lattice{s, int32(i), id}
			}
			single = single || length == n
		})
		if s := here + u.unkScore; !single && s > best[i+n].score {
			best[i+n] = lattice{s, int32(i), int32(u.unk)}
		}
		i += n
	}
	// Walk back, turning the chain of `from` into a chain of `to` in place.
	to := int32(len(word))
	for to > 0 {
		from := best[to].from
		best[from].score = float64(to) // exact: positions are below 2³¹
		to = from
	}
	unknown := 0 // start of the run of unknown characters that ends at i
	for i := 0; i < len(word); {
		next := int(best[i].score)
		if id := int(best[next].id); id != u.unk {
			dst = append(u.unknown(dst, word[unknown:i]), id)
			unknown = next
		}
		i = next
	}
	return u.unknown(dst, word[unknown:]), nil
}

// unknown appends the tokens of a run of unknown characters, which may equal the written form of the unknown token.
func (u *unigram) unknown(dst []int, run string) []int {
	if run == "" {
		return dst
	}
	if id, ok := u.vocab.findString(run); ok {
		return append(dst, id)
	}
	if u.byteTokens {
		if dst, ok := appendBytes(dst, run, &u.byteID); ok {
			return dst
		}
	}
	return append(dst, u.unk)
}

// trie finds all tokens that are a prefix of a text.
type trie struct {
	next  map[trieEdge]int32
	value []int32 // by node; −1: no token ends here
	depth int
}

type trieEdge struct {
	node int32
	b    byte
}

// Limits of a trie. The depth bounds the work per character of text.
const (
	maxTrieNodes = 1 << 25
	maxTrieDepth = 128
)

func (t *trie) add(key []byte, value int32) error {
	if len(key) > maxTrieDepth {
		return fmt.Errorf("%w: the token %.40q has %d bytes, more than %d", pack.ErrLimit, key, len(key), maxTrieDepth)
	}
	if t.next == nil {
		t.next, t.value = map[trieEdge]int32{}, []int32{-1}
	}
	node := int32(0)
	for _, b := range key {
		edge := trieEdge{node, b}
		child, ok := t.next[edge]
		if !ok {
			if len(t.value) >= maxTrieNodes {
				return fmt.Errorf("%w: the tokens are too long together", pack.ErrLimit)
			}
			child = int32(len(t.value))
			t.next[edge] = child
			t.value = append(t.value, -1)
		}
		node = child
	}
	t.value[node] = value
	t.depth = max(t.depth, len(key))
	return nil
}

// walk calls found for every key that is a prefix of s, shortest first.
func (t *trie) walk(s string, found func(length int, value int32)) {
	node := int32(0)
	for i := range min(len(s), t.depth) {
		child, ok := t.next[trieEdge{node, s[i]}]
		if !ok {
			return
		}
		if node = child; t.value[node] >= 0 {
			found(i+1, t.value[node])
		}
	}
}
