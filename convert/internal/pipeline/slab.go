package pipeline

import (
	"hash"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/offheap"
)

// chunk is a piece of a source file in memory. It goes back when all who use it are done.
type chunk struct {
	data []byte
	at   int64 // of data, counted over all source files
	home func(*chunk)
	uses atomic.Int32

	memory   []byte       // that data are a part of
	also     hash.Hash    // of the tensor that data belong to, if it is kept
	digested func() error // what comes after that; may be nil
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
	in    []byte // rows that are read again, as many as are read at once
	codes []int8 // unless those of the whole matrix are kept; then the numbers of the codes (FORMAT F12)
	bytes []byte // packed; none where the layout packs the whole matrix at once
}

type slotSize struct{ in, codes, bytes int }

func (s *slotSize) cover(t slotSize) {
	s.in, s.codes, s.bytes = max(s.in, t.in), max(s.codes, t.codes), max(s.bytes, t.bytes)
}

// cut gives slices of these sizes.
func cut(sizes []int) (*offheap.Buffer, [][]byte, error) {
	const line = 64 // bytes of a cache line, of which no two goroutines should share one
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
