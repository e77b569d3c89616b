package convert

import (
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/sha256pair"
	"github.com/lowpack/lowpack/pack"
)

// packing makes one quantized tensor of the file: blocks of codes become packed bytes and numbers, in any order, and
// these are digested and written in ascending order.
type packing struct {
	w       *packed.Writer
	entry   *packed.Entry // in the manifest of w
	layout  pack.Layout
	shape   pack.Shape
	alpha   pack.Alphabet
	numbers *packed.Numbers
	panel   *panels // nil: the layout packs the whole matrix at once
	whole   bool    // all codes are in memory at once
	blocks  blocks

	pool   *workerPool
	fill   fillFunc
	wrote  func(rows int) // is told about rows that are done
	finish func() error   // is called when all are written
	count  bool           // of each code

	matrix []int8 // all codes, if they are in memory
	bytes  []byte // then the packed bytes, unless there are panels
	out    *packed.Stream
	codes  hash.Hash

	mu      sync.Mutex
	ready   []*slot // by block: packed and not written
	next    int     // block to be written
	writing bool
	counts  [256]int64
}

// fillFunc makes the codes of the rows [from, to), with the memory of a slot.
type fillFunc func(s *slot, codes []int8, from, to int) error

// newPacking plans the work on a tensor. Its source may demand that blocks are a multiple of a number of rows, and that
// all codes are in memory at once.
func newPacking(w *packed.Writer, name string, panel int, whole bool) (*packing, error) {
	e, ok := w.Manifest().Entry(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q is not in the plan", name)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	s := e.MatrixShape()
	t := &packing{w: w, entry: e, layout: l, shape: s, alpha: a, numbers: packed.NewNumbers(a, s.K), wrote: func(int) {}}
	if t.panel, err = panelsOf(l, s); err != nil {
		return nil, err
	}
	t.whole = whole || t.panel == nil
	t.blocks = newBlocks(s, leastCommon(panel, t.panel.rowsOf()))
	return t, nil
}

// leastCommon multiple of two numbers of rows.
func leastCommon(a, b int) int {
	a = max(a, 1)
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// demand of memory. in is what a slot must hold of the source.
func (t *packing) demand(d *demand, in int) {
	rows := t.blocks.most()
	size := slotSize{in: in, codes: rows * t.shape.K}
	if t.whole {
		size.codes = rows * t.numbers.Row()
		d.matrix = max(d.matrix, t.shape.M*t.shape.K+t.wholeBytes())
	}
	if t.panel != nil {
		_, size.bytes = t.panel.span(0, rows)
	}
	d.slot.cover(size)
	d.codes = max(d.codes, t.shape.M*t.shape.K)
}

// wholeBytes is the number of packed bytes that must be in memory at once.
func (t *packing) wholeBytes() int {
	if t.panel != nil {
		return 0
	}
	return t.entry.Bytes
}

// begin opens the tensor in the file. matrix is the memory of a tensor that is whole.
func (t *packing) begin(c *workerPool, matrix []byte) (err error) {
	t.pool, t.codes = c, packed.NewCodesHash(t.alpha.Name, t.shape)
	t.ready = make([]*slot, t.blocks.count())
	if t.whole {
		n := t.shape.M * t.shape.K
		t.matrix, t.bytes = packed.BytesAsCodes(matrix[:n]), matrix[n:][:t.wholeBytes()]
	}
	t.out, err = t.w.Stream(t.entry.Name + packed.PackedSuffix)
	return err
}

// block makes the codes of block i and packs them.
func (t *packing) block(s *slot, i int) error {
	from, to := t.blocks.at(i)
	codes := s.codes
	if t.whole {
		codes = t.matrix[from*t.shape.K:]
	}
	codes = codes[:(to-from)*t.shape.K]
	if err := t.fill(s, codes, from, to); err != nil {
		return err
	}
	if t.count {
		t.countCodes(codes)
	}
	if t.panel != nil {
		part := &pack.Matrix{Shape: pack.Shape{M: to - from, K: t.shape.K}, Alphabet: t.alpha, Codes: codes}
		begin, end := t.panel.span(from, to)
		if err := t.layout.Pack(s.bytes[:end-begin], part); err != nil {
			return t.fail(err)
		}
	}
	t.numbers.Write(packed.CodeBytes(s.codes), codes)
	return t.write(s, i)
}

// write takes block i, and writes it and those behind it as soon as all before it are there. One goroutine does that.
func (t *packing) write(s *slot, i int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready[i] = s
	if t.writing {
		return nil
	}
	t.writing = true
	defer func() { t.writing = false }()
	for t.next < len(t.ready) && t.ready[t.next] != nil {
		i, s := t.next, t.ready[t.next]
		t.mu.Unlock()
		err := t.writeBlock(s, i)
		t.pool.giveBack(s)
		t.mu.Lock()
		if err != nil {
			return err
		}
		t.next++
	}
	if t.next < len(t.ready) {
		return nil
	}
	return t.close()
}

// writeBlock digests the codes of block i and its packed bytes, if it has any of its own, and writes these.
func (t *packing) writeBlock(s *slot, i int) error {
	from, to := t.blocks.at(i)
	numbers := packed.CodeBytes(s.codes)[:(to-from)*t.numbers.Row()]
	defer t.wrote(to - from)
	if t.panel == nil {
		t.codes.Write(numbers)
		return nil
	}
	begin, end := t.panel.span(from, to)
	sha256pair.Write(t.out.Hash(), s.bytes[:end-begin], t.codes, numbers)
	return t.out.Put(s.bytes[:end-begin], int64(begin))
}

// close packs what can only be packed as a whole, and ends the tensor.
func (t *packing) close() error {
	if t.panel == nil {
		if err := t.layout.Pack(t.bytes, &pack.Matrix{Shape: t.shape, Alphabet: t.alpha, Codes: t.matrix}); err != nil {
			return t.fail(err)
		}
		if _, err := t.out.Write(t.bytes); err != nil {
			return err
		}
	}
	if err := t.out.Close(); err != nil {
		return err
	}
	t.entry.CodesSHA = hex.EncodeToString(t.codes.Sum(nil))
	err := t.finish()
	t.fill, t.wrote, t.finish, t.ready = nil, nil, nil, nil // and what these hold
	return err
}

func (t *packing) fail(err error) error { return fmt.Errorf("tensor %q: %w", t.entry.Name, err) }

func (t *packing) countCodes(codes []int8) {
	var counts [256]int64
	for _, c := range codes {
		counts[uint8(c)]++
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range counts {
		t.counts[i] += n
	}
}

// codeCounts says how often each value of the alphabet occurs, in its order.
func (t *packing) codeCounts() []int64 {
	list := make([]int64, len(t.alpha.Values))
	for i, v := range t.alpha.Values {
		list[i] = t.counts[uint8(v)]
	}
	return list
}
