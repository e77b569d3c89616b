package pipeline

import (
	"context"
	"sync"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/offheap"
)

// Limits of the memory of a run. It lies outside the heap and is all taken at the beginning, whatever the number of
// tensors and goroutines. It grows by two bytes per weight of the largest tensor that should stay in memory, up to a
// bound: a larger tensor is read again. Including the heap it stays below that plus 64 MiB.
type Limits struct {
	Chunk   int // bytes of a chunk
	Flow    int // chunks for data used as soon as read, shared by the files read concurrently
	Spare   int // chunks for the next tensor while blocks of the previous one are packed
	PerCode int // bytes for tensors that stay in memory, per code of the largest
	Stay    int // bytes for these at most
	Slots   int // bytes of all slots, unless a single slot takes more
}

// UsualLimits hold every linear layer of models up to 14 billion weights, and the embedding of none.
var UsualLimits = Limits{Chunk: 1 << 19, Flow: 16, Spare: 36, PerCode: 2, Stay: 128 << 20, Slots: 10 << 20}

// memory is divided into chunks, slots, and a matrix.
type memory struct {
	buffer *offheap.Buffer
	slots  []*slot
	flow   []*chunk
	matrix chan []byte // of codes and packed bytes, for one tensor at a time

	stay int // chunks for tensors that stay until their passes are done

	mu       sync.Mutex
	wake     sync.Cond
	free     []*chunk // of these
	promised int      // of the free chunks
	drawn    bool     // a lease draws from the chunks not promised
}

// demand is the memory that the tensors of a run need.
type demand struct {
	slot   slotSize // maximum over the tensors, like the other fields
	codes  int      // in a tensor that should stay in memory
	matrix int      // bytes of one that must be in memory as a whole
}

func newMemory(l Limits, d demand, threads int) (*memory, error) {
	m := &memory{matrix: make(chan []byte, 1)}
	m.wake.L = &m.mu
	if d.codes > 0 {
		m.stay = max(0, min(l.PerCode*d.codes, l.Stay)-d.matrix)/l.Chunk + l.Spare
	}
	slots := min(threads+2, max(1, l.Slots/max(1, d.slot.in+d.slot.codes+d.slot.bytes)))
	sizes := []int{d.matrix}
	for range slots {
		sizes = append(sizes, d.slot.in, d.slot.codes, d.slot.bytes)
	}
	for range l.Flow + m.stay {
		sizes = append(sizes, l.Chunk)
	}
	var parts [][]byte
	var err error
	if m.buffer, parts, err = cut(sizes); err != nil {
		return nil, err
	}
	m.matrix <- parts[0]
	parts = parts[1:]
	for ; slots > 0; slots-- {
		m.slots = append(m.slots, &slot{parts[0], packed.BytesAsCodes(parts[1]), parts[2]})
		parts = parts[3:]
	}
	for i, p := range parts {
		if i < l.Flow {
			m.flow = append(m.flow, &chunk{memory: p})
		} else {
			m.free = append(m.free, &chunk{memory: p, home: m.back})
		}
	}
	return m, nil
}

func (m *memory) close() { m.buffer.Free() }

// back returns a chunk of a tensor that has stayed.
func (m *memory) back(c *chunk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, c)
	m.wake.Broadcast()
}

// lease lets a tensor flow into the memory and stay there. Its chunks are promised or, when there are too few, drawn as
// others give them back. Only one tensor draws at a time, so that a tensor with some of its chunks can always be
// completed.
type lease struct {
	m        *memory
	promised int
	draws    bool
}

// lease returns nil if n chunks cannot stay, at all or at present: the tensor is then read again, from the page cache
// if it is still there.
func (m *memory) lease(n int) *lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case n <= len(m.free)-m.promised:
		m.promised += n
		return &lease{m: m, promised: n}
	case n <= m.stay && !m.drawn:
		m.drawn = true
		return &lease{m: m, draws: true}
	}
	return nil
}

// chunk waits for one.
func (l *lease) chunk(ctx context.Context) (*chunk, error) {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wake.Broadcast()
	})()
	for l.promised == 0 && len(m.free) <= m.promised {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.wake.Wait()
	}
	if l.promised > 0 {
		l.promised--
		m.promised--
	}
	c := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return c, nil
}

// end reports that the tensor is in memory, or will not be. A second call does nothing.
func (l *lease) end() {
	if l == nil {
		return
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.promised -= l.promised
	if l.draws {
		l.m.drawn = false
	}
	l.promised, l.draws = 0, false
}
