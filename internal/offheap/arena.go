package offheap

import "sync"

// Arena hands out parts of large mappings, one after another: memory comes in large pages only where a mapping covers
// them whole, which a mapping per matrix rarely does. A mapping is unmapped when its last part has been freed; until
// then a freed part keeps its pages. A mapping of which little was used is kept for later parts.
type Arena struct {
	mu   sync.Mutex
	last *mapping
}

// mapping is what parts are cut from.
type mapping struct {
	*Buffer
	used, parts int
}

const (
	mappingSize = 256 << 20 // of addresses; pages are taken when they are written
	partAlign   = 64
	keep        = 2 << 20 // what costs less to clear than to get from the system again: one large page
)

// Part is zeroed memory of an arena.
type Part struct {
	Bytes []byte
	arena *Arena
	from  *mapping
}

// New returns n bytes that begin at a multiple of 64.
func (a *Arena) New(n int) (*Part, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil || a.last.used+n > len(a.last.Bytes) {
		b, err := New(max(n, mappingSize))
		if err != nil {
			if b, err = New(n); err != nil { // addresses are limited
				return nil, err
			}
		}
		a.last = &mapping{Buffer: b}
	}
	m := a.last
	p := &Part{m.Bytes[m.used:][:n:n], a, m}
	m.used = min((m.used+n+partAlign-1)/partAlign*partAlign, len(m.Bytes))
	m.parts++
	return p, nil
}

// Free gives the part back. A second call does nothing.
func (p *Part) Free() {
	if p == nil || p.from == nil {
		return
	}
	p.arena.mu.Lock()
	defer p.arena.mu.Unlock()
	m := p.from
	p.Bytes, p.from = nil, nil
	if m.parts--; m.parts > 0 {
		return
	}
	if m == p.arena.last {
		if m.used <= keep {
			clear(m.Bytes[:m.used])
			m.used = 0
			return
		}
		p.arena.last = nil
	}
	m.Free()
}
