package convert

import (
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/offheap"
)

// slot is the memory of one block of rows on its way from the source to the file.
type slot struct {
	in      []byte // rows of the source, as many as are read at once
	codes   []int8 // unless those of the whole matrix are kept
	bytes   []byte // packed; none where the layout packs the whole matrix at once
	numbers []byte // of the codes (FORMAT F12); in place of the codes, unless those are kept
	counts  *[256]int64
}

// maxSlots bounds the memory of all slots, unless a single one takes more.
const maxSlots = 16 << 20

// memory is used for one tensor after another: whatever the number of tensors and goroutines, it is what grows with the
// input, at most by two bytes per weight of the largest tensor.
type memory struct{ buffer *offheap.Buffer }

func (m *memory) free() { m.buffer.Free() }

// cut gives slices of these sizes. Those of the call before are invalid then.
func (m *memory) cut(sizes []int) ([][]byte, error) {
	const line = 64 // bytes of a cache line, of which no two goroutines should share one
	total := 0
	for _, n := range sizes {
		total += (n + line - 1) / line * line
	}
	if m.buffer == nil || len(m.buffer.Bytes) < total {
		m.buffer.Free()
		var err error
		if m.buffer, err = offheap.New(total); err != nil {
			return nil, err
		}
	}
	list, rest := make([][]byte, len(sizes)), m.buffer.Bytes
	for i, n := range sizes {
		list[i], rest = rest[:n:n], rest[(n+line-1)/line*line:]
	}
	return list, nil
}

// newSlots makes slots of these sizes, as many as jobs keep busy, and cuts further slices from the same memory.
func (m *memory) newSlots(jobs, in, codes, bytes, numbers int, further ...int) ([]*slot, [][]byte, error) {
	n := min(jobs+2, max(1, maxSlots/(in+codes+bytes+numbers)))
	sizes := further
	for range n {
		sizes = append(sizes, in, codes, bytes, numbers)
	}
	list, err := m.cut(sizes)
	if err != nil {
		return nil, nil, err
	}
	rest := list[len(further):]
	slots := make([]*slot, n)
	for i := range slots {
		s := rest[4*i : 4*i+4]
		slots[i] = &slot{s[0], packed.BytesAsCodes(s[1]), s[2], s[3], new([256]int64)}
		if codes > 0 {
			slots[i].numbers = s[1]
		}
	}
	return slots, list[:len(further)], nil
}

// sources are the buffers of all slots for what is read.
func sources(slots []*slot) [][]byte {
	list := make([][]byte, len(slots))
	for i, s := range slots {
		list[i] = s.in
	}
	return list
}
