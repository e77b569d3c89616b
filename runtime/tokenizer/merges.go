package tokenizer

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/lowpack/lowpack/pack"
)

const maxMerges = 1 << 23

// merges maps a pair of neighbouring tokens to the token they become and the rank of that rule; the smallest rank is
// applied first. It is an open-addressing table, at most 3/5 full, whose hash is salted: ids come from strangers.
type merges struct {
	slots []mergeSlot
	count int
	salt  uint64
	shift int
}

type mergeSlot struct {
	pair uint64 // left << 32 | right + 1; 0 is empty
	rank uint32
	id   uint32
}

const noRank = ^uint32(0)

func newMerges(n int) *merges {
	size := bits.Len(uint(max(n, 8) / 3 * 5))
	return &merges{slots: make([]mergeSlot, 1<<size), salt: rand.Uint64() | 1, shift: 64 - size}
}

func pairKey(left, right int) uint64 { return uint64(left)<<32 | uint64(right) + 1 }

func (m *merges) add(left, right, rank, id int) error {
	if m.count >= maxMerges {
		return fmt.Errorf("%w: more than %d merges", pack.ErrLimit, maxMerges)
	}
	if 5*m.count >= 3*len(m.slots) {
		m.grow()
	}
	m.insert(mergeSlot{pairKey(left, right), uint32(rank), uint32(id)})
	return nil
}

// insert keeps the last rule of a pair that has several.
func (m *merges) insert(s mergeSlot) {
	mask := len(m.slots) - 1
	i := int(s.pair*m.salt>>m.shift) & mask
	for ; m.slots[i].pair != 0; i = (i + 1) & mask {
		if m.slots[i].pair == s.pair {
			m.slots[i] = s
			return
		}
	}
	m.slots[i] = s
	m.count++
}

func (m *merges) grow() {
	old := m.slots
	m.slots, m.shift, m.count = make([]mergeSlot, 2*len(old)), m.shift-1, 0
	for _, s := range old {
		if s.pair != 0 {
			m.insert(s)
		}
	}
}

// rank of the rule for a pair, and the token that it makes; noRank when there is no rule.
func (m *merges) rank(left, right int32) (rank uint32, id int32) {
	key := pairKey(int(left), int(right))
	mask := len(m.slots) - 1
	for i := int(key*m.salt>>m.shift) & mask; ; i = (i + 1) & mask {
		s := &m.slots[i]
		if s.pair == key {
			return s.rank, int32(s.id)
		}
		if s.pair == 0 {
			return noRank, 0
		}
	}
}
