package engine

import (
	"fmt"
	"unsafe"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/numa"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// NUMA says how threads and weights are divided among the NUMA nodes of a machine. With one node, or fewer threads than
// nodes, every mode is NUMAOff.
type NUMA string

// The modes.
const (
	// NUMADistribute binds the threads to nodes, as many to each as it has of all CPUs that this process may use, and
	// gives each node the same rows of a matrix every time. What is repacked at load time, and what this engine is the
	// first to read of the file, then lies in memory of the node that reads it.
	NUMADistribute NUMA = "distribute"
	// NUMACopy copies also the weights of the file, once, each row into memory of the node that reads it, wherever the
	// page cache has them. It is NUMADistribute with a device.
	NUMACopy NUMA = "copy"
	NUMAOff  NUMA = "off" // the system moves threads and chooses memory
)

// NUMAModes lists the modes. The first is the default.
func NUMAModes() []NUMA { return []NUMA{NUMADistribute, NUMACopy, NUMAOff} }

// machine is replaced in tests.
var machine = numa.Here

// nodes lists the nodes to use; nil = one.
func (o *Options) nodes() []numa.Node {
	if n := machine().Nodes; o.NUMA != NUMAOff && len(n) > 1 && o.Threads >= len(n) {
		return n
	}
	return nil
}

// Nodes is the number of NUMA nodes that the threads are bound to, 1 if they are not, and the bytes of weights that
// were copied to their memory (NUMACopy).
func (e *Engine) Nodes() (n, copied int) { return e.pool.Nodes(), e.copied }

// copying reports whether weights of the file are to be copied.
func (o *Options) copying() bool {
	return o.NUMA == NUMACopy && (o.Device == "" || o.Device == device.CPU) && o.nodes() != nil
}

// planCopies looks, before a large model is copied for minutes, whether the copies fit into memory.
func (l *loader) planCopies() error {
	if !l.opt.copying() {
		return nil
	}
	l.room = l.roomForCopies()
	need := 0
	for _, n := range l.desc.Tensors() {
		if n.Linear {
			need += l.readInPlace(&n)
		}
	}
	return l.fits(need)
}

// roomForCopies is the memory that is free beside one context, a pass, and what another engine has reserved. What a
// pass takes for wide layers is not known yet: allocate looks again.
func (e *Engine) roomForCopies() int {
	free := availableMemory()
	if e.opt.Memory > 0 {
		free = min(free, e.opt.Memory)
	}
	e.planWindows()
	one := e.cacheBytes(e.opt.Context) + float64(e.windowBytes()) + e.stateBytes() + e.passBytes()
	return int(float64(free-e.taken) - one)
}

// readInPlace is the size of a linear layer if threads read it where it lies in the file. What is wrong with a tensor
// is told when it is bound.
func (l *loader) readInPlace(n *model.Need) (bytes int) {
	if entry, ok := l.view.Manifest().Entry(n.Name); ok {
		native := kernel.Native(entry.Layout, entry.MatrixShape().K, l.view.Manifest().Block(entry))
		if native && !l.opt.FloatActivations {
			return entry.Bytes * entry.Experts()
		}
		return 0
	}
	if n.Turned {
		return 0
	}
	for _, name := range append(n.Parts(), n.Name) {
		if t, err := l.view.Tensor(name); err == nil {
			bytes += len(t.Data)
		}
	}
	return bytes
}

// fits is an error if copies of so many bytes are too large.
func (l *loader) fits(bytes int) error {
	if l.copied+bytes <= l.room {
		return nil
	}
	return fmt.Errorf("%w: a copy of the weights for NUMA nodes (%s) does not fit into memory: it takes %d bytes, and "+
		"%d are free beside the KV cache of one context; use %s", pack.ErrLimit, NUMACopy, l.copied+bytes,
		max(l.room, 0), NUMADistribute)
}

// near returns the data of weights that the threads read: a copy of what lies in the file, if there is to be one. Data
// that several matrices share are copied once.
func (l *loader) near(data []byte) ([]byte, error) {
	if !l.opt.copying() || len(data) == 0 {
		return data, nil
	}
	if c := l.copyOf[unsafe.SliceData(data)]; len(c) >= len(data) {
		return c[:len(data)], nil
	}
	if err := l.fits(len(data)); err != nil {
		return nil, err
	}
	part, err := nearMemory.New(len(data))
	if err != nil {
		return nil, err
	}
	l.close = append(l.close, part.Free)
	copy(part.Bytes, data)
	if l.copyOf == nil {
		l.copyOf = map[*byte][]byte{}
	}
	l.copyOf[unsafe.SliceData(data)] = part.Bytes
	l.copies = append(l.copies, part.Bytes)
	l.copied += len(data)
	return part.Bytes, nil
}

// nearMemory holds copies of weights.
var nearMemory offheap.Arena

// nearFloats is near for the floats of a linear layer. Transposed ones are a copy already.
func (l *loader) nearFloats(lin *model.Linear, m *tensor.Matrix) *tensor.Matrix {
	if l.err != nil || lin.Turned {
		return m
	}
	data, err := l.near(m.Stored())
	if err == nil {
		m, err = tensor.NewMatrix(m.Type, m.Rows, m.Cols, data)
	}
	if err != nil {
		l.fail(lin.Weight, err)
	}
	return m
}

// resident is memory of this process that holds weights of a matrix.
type resident struct {
	rows  portion
	bytes []byte
}

// portion is where the rows of a matrix stand in the units of a projection.
type portion struct{ first, units, all int }

func portionOf(f *projection, m *matrix) portion { return portion{m.first, m.units, f.units} }

// of returns the part of a matrix that a node is the first to take.
func (s portion) of(p *kernel.Pool, node int, b []byte) []byte {
	from, to := p.Home(node, s.all)
	from, to = min(max(from-s.first, 0), s.units), min(max(to-s.first, 0), s.units)
	return b[len(b)*from/s.units : len(b)*to/s.units]
}

// settle gives weights that are in memory of this process, repacked or copied, pages of the nodes that will read them.
func (e *Engine) settle() {
	if e.pool.Nodes() == 1 {
		return
	}
	list := e.residents()
	e.pool.Reside(func(node int) {
		for _, r := range list {
			offheap.Renew(r.rows.of(e.pool, node, r.bytes))
		}
	})
}

// residents lists the memory of this process that holds weights. No two overlap.
func (e *Engine) residents() (list []resident) {
	own := map[*byte]bool{}
	for _, c := range e.copies {
		own[unsafe.SliceData(c)] = true
	}
	add := func(s portion, b []byte, mine bool) {
		if at := unsafe.SliceData(b); len(b) > 0 && (mine || own[at]) {
			list = append(list, resident{s, b})
			own[at] = false // once, where matrices share it
		}
	}
	codes := func(s portion, w *kernel.Weights) {
		for _, b := range w.Owned() {
			add(s, b, true)
		}
		add(s, w.Stored(), false)
	}
	for _, f := range e.weights.projections() {
		for i := range f.matrices {
			m := &f.matrices[i]
			if m.codes != nil {
				codes(portionOf(f, m), m.codes)
			} else {
				add(portionOf(f, m), m.floats.Stored(), false)
			}
			if m.minima != nil {
				add(portionOf(f, m), m.minima.Stored(), false)
			}
		}
	}
	if s := e.weights.screen; s != nil {
		n := s.codes.Panels()
		codes(portion{0, n, n}, s.codes)
	}
	return list
}

// projections lists all linear layers.
func (w *weights) projections() []*projection {
	list := append(w.plain(), &w.head)
	for i := range w.blocks {
		list = append(list, w.blocks[i].projections()...)
	}
	return list
}
