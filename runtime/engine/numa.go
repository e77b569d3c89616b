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

// near returns the data of weights that the threads read: a copy of what lies in the file, if there is to be one. Data
// that several matrices share are copied once.
func (l *loader) near(data []byte) ([]byte, error) {
	o := &l.opt
	if o.NUMA != NUMACopy || o.Device != "" && o.Device != device.CPU || o.nodes() == nil || len(data) == 0 {
		return data, nil
	}
	if c := l.copies[unsafe.SliceData(data)]; len(c) >= len(data) {
		return c[:len(data)], nil
	}
	free := availableMemory()
	if o.Memory > 0 {
		free = min(free, o.Memory-l.copied)
	}
	if len(data) > free {
		return nil, fmt.Errorf("%w: a copy of the weights for NUMA nodes (%s) does not fit into memory: after "+
			"%d bytes of it %d more are needed, and %d are free; use %s", pack.ErrLimit, NUMACopy, l.copied, len(data),
			max(free, 0), NUMADistribute)
	}
	part, err := nearMemory.New(len(data))
	if err != nil {
		return nil, err
	}
	l.close = append(l.close, part.Free)
	copy(part.Bytes, data)
	if l.copies == nil {
		l.copies = map[*byte][]byte{}
	}
	l.copies[unsafe.SliceData(data)] = part.Bytes
	l.copyList = append(l.copyList, part.Bytes)
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
	for _, c := range e.copyList {
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
