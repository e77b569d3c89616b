package grammar

import (
	"bytes"
	"slices"
)

// Vocabulary is the bytes of the tokens that a text is made of. It is safe for concurrent use.
type Vocabulary struct {
	size   int
	tokens [][]byte
	sorted []int32 // ids of tokens with bytes, by their bytes
	common []int32 // bytes that sorted[i] has in common with sorted[i−1]
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
	v.common = make([]int32, len(v.sorted))
	for i := 1; i < len(v.sorted); i++ {
		a, b := v.tokens[v.sorted[i-1]], v.tokens[v.sorted[i]]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		v.common[i] = int32(n)
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

// mask finds the tokens that a state allows: all of the sorted list, where what a token has in common with the one before
// need not be read again, and tokens that begin with bytes that are not allowed are skipped. It is nil where that is more than
// mostWork, which does not depend on what is remembered.
func (v *Vocabulary) mask(g *Grammar, s *state) *Mask {
	m := newMask(v.size)
	path := []*state{s} // path[i] is the state behind i bytes
	work := 0
	for i, id := range v.sorted {
		token, n := v.tokens[id], int(v.common[i])
		if n >= len(path) { // the bytes that the token before ended at are not allowed
			continue
		}
		path = path[:n+1]
		for _, b := range token[n:] {
			next := g.follow(path[len(path)-1], b)
			if next == crowded {
				work += mostPlaces
			}
			if next == nil || next == crowded {
				break
			}
			work += 1 + len(next.positions)
			path = append(path, next)
		}
		if work > mostWork {
			return nil
		}
		if len(path) == len(token)+1 {
			m.bits[id/64] |= 1 << (id % 64)
			m.count++
		}
	}
	return m
}
