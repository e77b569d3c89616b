package grammar

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
)

// Vocabulary holds the bytes of the tokens. It is safe for concurrent use.
type Vocabulary struct {
	size   int
	tokens [][]byte
	plain  wordList // tokens of up to maxPlain bytes, all of them plain
	other  wordList // other tokens of up to maxShort bytes
	long   wordList
	none   *Mask
}

const (
	maxPlain = 16 // bytes of tokens that are tested together
	maxShort = 32 // bytes of tokens that all states of a run share
)

// isPlain reports whether a byte is printable ASCII except quote and backslash: free text allows either all of these or
// none.
func isPlain(b byte) bool { return b >= ' ' && b <= '~' && b != '"' && b != '\\' }

// wordList is a list of tokens sorted by bytes, with prefix compression.
type wordList struct {
	all    *Mask
	sorted []int32
	common []int32 // length of the prefix that sorted[i] shares with sorted[i−1]
	rest   []byte  // concatenation of the remaining bytes
	ends   []int32 // end of the bytes of sorted[i] in rest
}

// NewVocabulary returns a vocabulary of size ids; bytesOf returns nothing for a token that constrained text must not
// contain.
func NewVocabulary(size int, bytesOf func(id int) []byte) *Vocabulary {
	v := &Vocabulary{size: size, tokens: make([][]byte, size), none: newMask(size)}
	var plain, other, long []int32
	for id := range size {
		switch b := bytesOf(id); {
		case len(b) == 0:
			continue
		case len(b) <= maxPlain && !slices.ContainsFunc(b, func(b byte) bool { return !isPlain(b) }):
			plain = append(plain, int32(id))
			v.tokens[id] = b
		case len(b) <= maxShort:
			other = append(other, int32(id))
			v.tokens[id] = b
		default:
			long = append(long, int32(id))
			v.tokens[id] = b
		}
	}
	v.plain, v.other, v.long = v.list(plain), v.list(other), v.list(long)
	return v
}

// list builds the wordList of some tokens.
func (v *Vocabulary) list(ids []int32) wordList {
	slices.SortFunc(ids, func(a, b int32) int { return bytes.Compare(v.tokens[a], v.tokens[b]) })
	l := wordList{all: newMask(v.size), sorted: ids, common: make([]int32, len(ids)), ends: make([]int32, len(ids))}
	var before []byte
	for i, id := range ids {
		token, n := v.tokens[id], 0
		for n < min(len(before), len(token)) && before[n] == token[n] {
			n++
		}
		l.rest = append(l.rest, token[n:]...)
		l.common[i], l.ends[i] = int32(n), int32(len(l.rest))
		l.all.add(id)
		before = token
	}
	return l
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

func (m *Mask) add(id int32) {
	m.bits[id/64] |= 1 << (id % 64)
	m.count++
}

// Has reports whether the set contains a token.
func (m *Mask) Has(id int) bool { return m.bits[id/64]>>(id%64)&1 != 0 }

// Restrict sets the logits of all tokens outside the set to −MaxFloat32.
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

// find computes the mask of a state. It returns false if that takes more than maxWork, which does not depend on cached
// states.
func (v *Vocabulary) find(g *Grammar, s *state) bool {
	like := g.like(s)
	if like.mask == nil {
		if like.mask = v.mask(g, like); like.mask == nil {
			return false
		}
		g.masks++
	}
	if s.mask == nil {
		if s.mask = v.lengthen(g, s, like.mask); s.mask == nil {
			return false
		}
		if s.mask != like.mask {
			g.masks++
		}
	}
	return true
}

// mask returns the tokens that a state allows; nil = more than maxWork.
func (v *Vocabulary) mask(g *Grammar, s *state) *Mask {
	m, work := newMask(v.size), 0
	if g.takesPlain(s, maxPlain) {
		copy(m.bits, v.plain.all.bits)
		m.count = v.plain.all.count
	} else {
		work = v.plain.search(g, s, m, work)
	}
	work = v.other.search(g, s, m, work)
	if work = v.long.search(g, s, m, work); work > maxWork {
		return nil
	}
	return m
}

// lengthen returns the mask of a state that shares the short tokens of other; nil = more than maxWork.
func (v *Vocabulary) lengthen(g *Grammar, s *state, other *Mask) *Mask {
	m := newMask(v.size)
	if v.long.search(g, s, m, 0) > maxWork {
		return nil
	}
	same := true
	for i, word := range other.bits {
		long := v.long.all.bits[i]
		same = same && word&long == m.bits[i]
		m.bits[i] |= word &^ long
		m.count += bits.OnesCount64(word &^ long)
	}
	if same {
		return other
	}
	return m
}

// takesPlain reports whether a state allows any n plain bytes, all leading to the same state.
func (g *Grammar) takesPlain(s *state, n int) bool {
	for range n {
		next := g.follow(s, g.plain[0])
		for _, b := range g.plain[1:] {
			if g.follow(s, b) != next {
				return false
			}
		}
		if s = next; s == blocked || s == crowded {
			return false
		}
	}
	return true
}

// search adds the allowed tokens of the list to m. It reuses the states of the prefix shared with the previous token
// and skips tokens that start with forbidden bytes. It returns work plus the number of positions visited.
func (l *wordList) search(g *Grammar, s *state, m *Mask, work int) int {
	path := []*state{s} // path[i] is the state after i bytes
	begin := int32(0)
	for i, n := range l.common {
		rest := l.rest[begin:l.ends[i]]
		begin = l.ends[i]
		if int(n) >= len(path) { // the shared prefix contains a forbidden byte
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
				work += maxPlaces
			}
			if next == blocked || next == crowded {
				break
			}
			work += 1 + len(next.positions)
			path = append(path, next)
			at = next
		}
		if work > maxWork {
			break
		}
		if len(path) == int(n)+len(rest)+1 {
			m.add(l.sorted[i])
		}
	}
	return work
}
