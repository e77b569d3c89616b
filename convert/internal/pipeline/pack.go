package pipeline

import (
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/sha256pair"
	"github.com/lowpack/lowpack/pack"
)

// packing makes one quantized tensor of the file: blocks of codes become packed bytes and code numbers, in any order;
// these are hashed and written in ascending order.
type packing struct {
	to      Writer
	target  Target
	layout  pack.Layout
	shape   pack.Shape
	alpha   pack.Alphabet
	numbers *packed.Numbers
	panel   *Panels // nil: the layout packs the whole matrix at once
	whole   bool    // all codes are in memory at once
	blocks  Blocks

	schedule *schedule
	fill     fillFunc
	finish   func(codesSHA string) error // is called when all are written
	count    bool                        // of each code
	total    int64                       // bytes reported to progress for all rows
	progress func(name string, bytes int64)

	matrix []int8 // all codes, if they are in memory
	bytes  []byte // packed bytes after that, unless there are panels
	out    *packed.Stream
	codes  hash.Hash

	mu      sync.Mutex
	ready   []*slot // by block: packed and not written
	next    int     // block to be written
	writing bool
	counts  [256]int64
}

// fillFunc computes the codes of rows [from, to), in the memory of a slot.
type fillFunc func(s *slot, codes []int8, from, to int) error

// newPacking plans the work on a tensor. Its source may demand that blocks are a multiple of a number of rows, and that
// all codes are in memory at once.
func newPacking(to Writer, x Target, panel int, whole bool) (*packing, error) {
	l, err := pack.Open(x.Layout)
	if err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(x.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	t := &packing{to: to, target: x, layout: l, shape: x.Shape, alpha: a, numbers: packed.NewNumbers(a, x.Shape.K)}
	if t.panel, err = PanelsOf(l, x.Shape, x.experts()); err != nil {
		return nil, err
	}
	t.whole = whole || t.panel == nil
	t.blocks = NewBlocks(x.Shape, x.experts(), leastCommon(panel, t.panel.RowsOf()))
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

// demand adds the memory needed. in is the number of source bytes in a slot.
func (t *packing) demand(d *demand, in int) {
	rows := t.blocks.most()
	size := slotSize{in: in, codes: rows * t.shape.K}
	if t.whole {
		size.codes = rows * t.numbers.Row()
		d.matrix = max(d.matrix, t.target.weights()+t.wholeBytes())
	}
	if t.panel != nil {
		_, size.bytes = t.panel.Span(0, rows)
		size.bytes += packed.Align
	}
	d.slot.cover(size)
}

// wholeBytes is the number of packed bytes that must be in memory at once.
func (t *packing) wholeBytes() int {
	if t.panel != nil {
		return 0
	}
	return t.target.Bytes
}

// begin opens the tensor in the file. matrix is the memory of a tensor that is whole.
func (t *packing) begin(c *schedule, matrix []byte) (err error) {
	t.schedule, t.codes = c, packed.NewCodesHash(t.alpha.Name, pack.Shape{M: t.target.rows(), K: t.shape.K})
	t.ready = make([]*slot, t.blocks.Count())
	if t.whole {
		n := t.target.weights()
		t.matrix, t.bytes = packed.BytesAsCodes(matrix[:n]), matrix[n:][:t.wholeBytes()]
	}
	t.out, err = t.to.Stream(t.target.Name + packed.PackedSuffix)
	return err
}

// block computes the codes of block i and packs them.
func (t *packing) block(s *slot, i int) error {
	from, to := t.blocks.At(i)
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
		begin, end := t.panel.Span(from, to)
		if err := t.layout.Pack(s.bytes[:end-begin], part); err != nil {
			return t.fail(err)
		}
		clear(s.bytes[end-begin : t.panel.stored(end)-begin])
	}
	t.numbers.Write(packed.CodeBytes(s.codes), codes)
	return t.write(s, i)
}

// write enqueues block i, and writes it and its successors once all earlier blocks are written. Only one goroutine
// writes at a time.
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
		t.schedule.giveBack(s)
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

// writeBlock hashes the codes of block i, and hashes and writes its packed bytes unless the matrix is packed as a
// whole.
func (t *packing) writeBlock(s *slot, i int) error {
	from, to := t.blocks.At(i)
	numbers := packed.CodeBytes(s.codes)[:(to-from)*t.numbers.Row()]
	defer t.wrote(from, to)
	if t.panel == nil {
		t.codes.Write(numbers)
		return nil
	}
	begin, end := t.panel.Span(from, to)
	end = t.panel.stored(end)
	sha256pair.Write(t.out.Hash(), s.bytes[:end-begin], t.codes, numbers)
	return t.out.Put(s.bytes[:end-begin], int64(begin))
}

// wrote reports progress for rows [from, to); the reports add up to the total.
func (t *packing) wrote(from, to int) {
	upTo := func(row int) int64 { return t.total * int64(row) / int64(t.target.rows()) }
	t.progress(t.target.Name, upTo(to)-upTo(from))
}

// close packs what can only be packed as a whole, and completes the tensor.
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
	err := t.finish(hex.EncodeToString(t.codes.Sum(nil)))
	t.fill, t.progress, t.finish, t.ready = nil, nil, nil, nil // release what they hold
	return err
}

func (t *packing) fail(err error) error { return fmt.Errorf("tensor %q: %w", t.target.Name, err) }

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

// codeCounts returns how often each value of the alphabet occurs, in its order; nil if not requested.
func (t *packing) codeCounts() []int64 {
	if !t.count {
		return nil
	}
	list := make([]int64, len(t.alpha.Values))
	for i, v := range t.alpha.Values {
		list[i] = t.counts[uint8(v)]
	}
	return list
}
