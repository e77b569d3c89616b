package tokenizer

import (
	"hash/maphash"
	"slices"
)

// workspace holds the working memory of one call of Encode: scratch memory, and a small cache of words. Workspaces are
// pooled between calls, so encoders that run concurrently share nothing.
type workspace struct {
	ids, next, prev []int32
	heap            heap
	lattice         []lattice
	words           []cachedWord // direct-mapped; bounded by construction
	seed            maphash.Seed
}

const (
	cacheWords     = 4096
	cacheWordBytes = 28
	cacheWordIDs   = 12
	// keepScratch bounds the scratch memory, in symbols, that a workspace keeps between calls.
	keepScratch = 1 << 16
)

// cachedWord remembers the tokens of one short word.
type cachedWord struct {
	ids   [cacheWordIDs]int32
	bytes [cacheWordBytes]byte
	len   uint8
	n     uint8
}

func newWorkspace() *workspace {
	return &workspace{words: make([]cachedWord, cacheWords), seed: maphash.MakeSeed()}
}

// cached returns the only entry that may hold the word; nil when the word is too long for the cache.
func (w *workspace) cached(word string) *cachedWord {
	if len(word) > cacheWordBytes || len(word) == 0 {
		return nil
	}
	return &w.words[maphash.String(w.seed, word)%cacheWords]
}

func (c *cachedWord) holds(word string) bool { return string(c.bytes[:c.len]) == word }

func (c *cachedWord) put(word string, ids []int32) {
	if len(ids) > cacheWordIDs {
		return
	}
	c.len, c.n = uint8(copy(c.bytes[:], word)), uint8(copy(c.ids[:], ids))
}

// trim releases scratch memory that a very long word has grown.
func (w *workspace) trim() {
	if cap(w.ids) > keepScratch || cap(w.heap) > keepScratch || cap(w.lattice) > keepScratch {
		w.ids, w.next, w.prev, w.heap, w.lattice = nil, nil, nil, nil, nil
	}
}

// grown returns s with length n, reusing its memory where that suffices.
func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// heap is a binary heap of integers, the smallest first.
type heap []uint64

func (h heap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) push(x uint64) {
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= x {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = x
	*h = s
}

func (h *heap) pop() uint64 {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	h.down(0)
	return top
}

func (h heap) down(i int) {
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if x <= h[child] {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = x
}
