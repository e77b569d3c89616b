package pipeline

import (
	"hash"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/offheap"
)

// chunk is a piece of a source file in memory. It is freed when all its users have released it.
type chunk struct {
	data []byte
	at   int64 // of data, counted over all source files
	home func(*chunk)
	uses atomic.Int32

	memory   []byte       // that data are a part of
	also     hash.Hash    // of the passthrough tensor that data belong to, if any
	digested func() error // called after hashing; may be nil
}

// release ends one use.
func (c *chunk) release() {
	if c.uses.Add(-1) == 0 {
		c.also, c.digested = nil, nil
		c.home(c)
	}
}

// slot is the memory of one block of rows on its way from the source to the file.
type slot struct {
	in    []byte // rows read again in one read
	codes []int8 // of the block, unless the whole matrix is kept; afterwards the code numbers (FORMAT F12)
	bytes []byte // packed; none where the layout packs the whole matrix at once
}

type slotSize struct{ in, codes, bytes int }

func (s *slotSize) cover(t slotSize) {
	s.in, s.codes, s.bytes = max(s.in, t.in), max(s.codes, t.codes), max(s.bytes, t.bytes)
}

// cut allocates slices of these sizes.
func cut(sizes []int) (*offheap.Buffer, [][]byte, error) {
	const line = 64 // bytes of a cache line; avoids false sharing
	total := 0
	for _, n := range sizes {
		total += (n + line - 1) / line * line
	}
	b, err := offheap.New(total)
	if err != nil {
		return nil, nil, err
	}
	list, rest := make([][]byte, len(sizes)), b.Bytes
	for i, n := range sizes {
		list[i], rest = rest[:n:n], rest[(n+line-1)/line*line:]
	}
	return b, list, nil
}
