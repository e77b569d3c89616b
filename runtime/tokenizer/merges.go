package tokenizer

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/lowpack/lowpack/pack"
)

const maxMerges = 1 << 23

// merges maps a pair of adjacent tokens to the token they become and the rank of that rule; the smallest rank is
// applied first. It is an open-addressing table, at most 3/5 full, whose hash is salted: ids are untrusted.
type merges struct {
	slots []merge
	salt  uint64
	shift int
}

// merge is one rule; a slot of the table with pair 0 is empty.
type merge struct {
	pair uint64 // left << 32 | right + 1
	rank uint32
	id   uint32 // the merged token
}

const noRank = ^uint32(0)

func newMerge(left, right, rank, id int) merge {
	return merge{uint64(left)<<32 | uint64(right) + 1, uint32(rank), uint32(id)}
}

// newMerges builds the table from lists of rules. The last of several rules for one pair counts.
func newMerges(lists ...[]merge) (*merges, error) {
	count := 0
	for _, rules := range lists {
		count += len(rules)
	}
	if count > maxMerges {
		return nil, fmt.Errorf("%w: more than %d merges", pack.ErrLimit, maxMerges)
	}
	size := bits.Len(uint(max(count, 8) / 3 * 5))
	m := &merges{slots: make([]merge, 1<<size), salt: rand.Uint64() | 1, shift: 64 - size}
	for _, rules := range lists {
		for _, r := range rules {
			*m.slot(r.pair) = r
		}
	}
	return m, nil
}

// slot returns the slot that holds a pair, or the free slot for it.
func (m *merges) slot(pair uint64) *merge {
	mask := uint64(len(m.slots) - 1)
	for i := pair * m.salt >> m.shift; ; i++ {
		if s := &m.slots[i&mask]; s.pair == pair || s.pair == 0 {
			return s
		}
	}
}

// rank returns the rank of the rule for a pair, and the merged token; noRank when there is no rule.
func (m *merges) rank(left, right int32) (rank uint32, id int32) {
	s := m.slot(uint64(left)<<32 | uint64(right) + 1)
	if s.pair == 0 {
		return noRank, 0
	}
	return s.rank, int32(s.id)
}
