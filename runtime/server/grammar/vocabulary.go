package grammar

import (
	"bytes"
	"math"
	"slices"
)

// Vocabulary is the bytes of the tokens that a text is made of. It is safe for concurrent use.
type Vocabulary struct {
	size   int
	tokens [][]byte
	sorted []int32 // ids of tokens with bytes, by their bytes
	common []int32 // bytes that sorted[i] has in common with sorted[i−1]
	rest   []byte  // the other bytes of all of sorted, one after another
	ends   []int32 // of those of sorted[i]
	none   *Mask
}

// NewVocabulary makes a vocabulary of size ids; bytesOf returns nothing for a token that no constrained text may have.
func NewVocabulary(size int, bytesOf func(id int) []byte) *Vocabulary {
	v := &Vocabulary{size: size, tokens: make([][]byte, size), none: newMask(size)}
	for id := range size {
		if b := bytesOf(id); len(b) > 0 {
			v.tokens[id] = b
			v.sorted = append(v.sorted, int32(id))
		}
	}
	slices.SortFunc(v.sorted, func(a, b int32) int { return bytes.Compare(v.tokens[a], v.tokens[b]) })
	v.common, v.ends = make([]int32, len(v.sorted)), make([]int32, len(v.sorted))
	var before []byte
	for i, id := range v.sorted {
		token, n := v.tokens[id], 0
		for n < min(len(before), len(token)) && before[n] == token[n] {
			n++
		}
		v.rest = append(v.rest, token[n:]...)
		v.common[i], v.ends[i] = int32(n), int32(len(v.rest))
		before = token
	}
	return v
}

func (v *Vocabulary) bytes(id int) []byte {
	if id < 0 || id >= v.size {
		return nil
	}
	return v.tokens[id]
}

// Mask is a set of tokens.
type Mask struct {
	bits  []uint64
	count int
}

func newMask(size int) *Mask { return &Mask{bits: make([]uint64, (size+63)/64)} }

// Has says whether a token is in the set.
func (m *Mask) Has(id int) bool { return m.bits[id/64]>>(id%64)&1 != 0 }

// Restrict leaves the logits of the tokens of the set as they are, and makes those of all others −MaxFloat32.
func (m *Mask) Restrict(logits []float32) {
	for i := 0; i < len(logits); i += 64 {
		word, row := m.bits[i/64], logits[i:min(i+64, len(logits))]
		if word == math.MaxUint64 {
			continue
		}
		for j := range row {
			if word>>j&1 == 0 {
				row[j] = -math.MaxFloat32
			}
		}
	}
}

// mask finds the tokens that a state allows: all of the sorted list, where what a token has in common with the one before
// need not be read again, and tokens that begin with bytes that are not allowed are skipped. It is nil where that is more than
// mostWork, which does not depend on what is remembered.
func (v *Vocabulary) mask(g *Grammar, s *state) *Mask {
	m := newMask(v.size)
	path := []*state{s} // path[i] is the state behind i bytes
	work, begin := 0, int32(0)
	for i, n := range v.common {
		rest := v.rest[begin:v.ends[i]]
		begin = v.ends[i]
		if int(n) >= len(path) { // the bytes that the token before ended at are not allowed
			continue
		}
		path = path[:n+1]
		at := path[n]
		for _, b := range rest {
			next := at.after(g.class[b])
			if next == nil {
				next = g.follow(at, b)
			}
			if next == crowded {
				work += mostPlaces
			}
			if next == blocked || next == crowded {
				break
			}
			work += 1 + len(next.positions)
			path = append(path, next)
			at = next
		}
		if work > mostWork {
			return nil
		}
		if len(path) == int(n)+len(rest)+1 {
			id := v.sorted[i]
			m.bits[id/64] |= 1 << (id % 64)
			m.count++
		}
	}
	return m
}
