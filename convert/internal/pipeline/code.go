package pipeline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/formats/checkpoint"
)

// coding makes the codes of one matrix. Which consumer it becomes depends on how its rows are stored, on its decoder
// and on the memory:
//
//	rows in order, decoded as they come     once    while a block of them fits in a chunk
//	rows in order, measured first           twice   if the part can stay in memory
//	rows anywhere in the part               whole   if the part can stay in memory
//	everything else                         again
type coding struct {
	*run
	x       *Tensor
	packing *packing
	decoder Decoder
	start   time.Time

	rows    rows  // where the decoder finds them
	unit    int64 // bytes of a chunk
	size    int64 // bytes of the part
	next    int   // block that is not yet begun
	missing atomic.Int32
	matrix  []byte // of the memory

	released func() // releases what is kept until all is written; nil: nothing
}

func (r *run) newCoding(x *Tensor) (*coding, error) {
	p, err := newPacking(r.To, x.Target, x.Source.Panel.Rows, false)
	if err != nil {
		return nil, err
	}
	return &coding{run: r, x: x, packing: p}, nil
}

// demand of memory.
func (c *coding) demand(d *demand) {
	shape, panel := c.x.Target.Shape, c.x.Source.Panel
	rows := min(c.packing.blocks.most(), max(1, blockCodes/shape.K))
	c.packing.demand(d, panel.size((rows+panel.Rows-1)/panel.Rows*panel.Rows))
	if c.x.Measured || !c.inOrder() {
		d.codes = max(d.codes, c.x.Target.weights())
	}
}

// open prepares for a range that is read in chunks of unit bytes.
func (c *coding) open(in *reading, unit int64) (err error) {
	c.start, c.unit, c.size = time.Now(), unit, in.part.Size
	c.missing.Store(1) // the end of reading
	c.rows = &fileRows{c.Read, &c.x.Source}
	var beside [][]byte
	for _, t := range c.x.Source.Beside {
		b := make([]byte, t.Size)
		if err := c.Read(t, b, 0); err != nil {
			return err
		}
		beside = append(beside, b)
	}
	if c.decoder, err = c.x.Open(beside); err != nil {
		return inTensor(c.part(0), err)
	}
	if _, ok := c.decoder.(Measurer); ok != c.x.Measured {
		return inTensor(c.part(0), fmt.Errorf("decoder %T: measures rows %v, as planned %v", c.decoder, ok,
			c.x.Measured))
	}
	p := c.packing
	p.fill, p.finish, p.count, p.total, p.progress = c.decode, c.finish, c.x.Count, c.x.Bytes, c.Progress
	if p.whole {
		return nil
	}
	return p.begin(c.schedule, nil)
}

func (c *coding) part(i int) checkpoint.Tensor { return c.x.Source.Parts[i] }

// aligned reports whether chunks hold whole panels of the one part.
func (c *coding) aligned() bool {
	s := &c.x.Source
	if len(s.Parts) > 1 || s.Panel.Lines > 1 {
		return len(s.Parts) == 1
	}
	for _, r := range s.Runs {
		if r.Off%int64(s.Panel.Bytes) != 0 {
			return false
		}
	}
	return c.unit%int64(s.Panel.Bytes) == 0
}

func (c *coding) chunkCount() int { return int((c.size + c.unit - 1) / c.unit) }

// chunkRows is the number of rows of a chunk, where rows are in order.
func (c *coding) chunkRows() int { return int(c.unit) / c.x.Source.Panel.Bytes * c.x.Source.Panel.Rows }

func (c *coding) inOrder() bool { return c.x.Source.inOrder(c.x.Target.rows()) }

// stays reports whether the whole part should stay in memory.
func (c *coding) stays() bool { return c.aligned() && (c.x.Measured || !c.inOrder()) }

// consumer chooses a consumer. granted means that chunks of the part stay in memory until they are released.
func (c *coding) consumer(granted bool) consumer {
	inOrder, p := c.aligned() && c.inOrder(), c.packing
	switch {
	case inOrder && !c.x.Measured && !p.whole && p.blocks.most() <= c.chunkRows(): // a block lies in two chunks at most
		return newOnce(c)
	case inOrder && c.x.Measured && granted:
		return newTwice(c)
	case c.aligned() && !c.x.Measured && !inOrder && granted:
		return newWhole(c)
	}
	return &again{coding: c, flows: inOrder && c.x.Measured}
}

// beginWhole waits, where the layout packs the whole matrix at once, for the memory that one tensor at a time has.
func (c *coding) beginWhole(ctx context.Context) error {
	if !c.packing.whole {
		return nil
	}
	select {
	case c.matrix = <-c.memory.matrix:
		return c.packing.begin(c.schedule, c.matrix)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// arrived ends a part that must precede the first code.
func (c *coding) arrived() error {
	if c.missing.Add(-1) > 0 {
		return nil
	}
	if c.x.Measured {
		if err := c.decoder.(Measurer).Fix(); err != nil {
			return inTensor(c.part(0), err)
		}
	}
	c.beginBlocks(c.x.Target.rows())
	return nil
}

// beginBlocks hands out the blocks that end before a row.
func (c *coding) beginBlocks(end int) {
	for ; c.next < c.packing.blocks.Count(); c.next++ {
		i := c.next
		from, to := c.packing.blocks.At(i)
		if to > end {
			return
		}
		c.schedule.addBlock(c.place(from), func(s *slot) error { return c.packing.block(s, i) })
	}
}

// place returns the position of a row in all source files; for rows that are not stored in order, a position of the
// right order.
func (c *coding) place(row int) int64 {
	t := c.last(c.x.Source.Parts)
	return c.at(t) + int64(row)*(t.Size/int64(c.x.Target.rows()))
}

// decode is the last pass over rows [from, to). Padding rows of the source follow the last row.
func (c *coding) decode(s *slot, codes []int8, from, to int) error {
	k := c.x.Target.Shape.K
	if to == c.x.Target.rows() {
		to = c.x.Source.rows()
	}
	return c.x.Source.each(c.rows, s.in, from, to, func(row, n int, stored []byte) error {
		at := min((row-from)*k, len(codes))
		return c.decoder.Decode(codes[at:min(at+n*k, len(codes))], row, stored)
	})
}

// finish ends the tensor and writes what is stored with its codes.
func (c *coding) finish(codesSHA string) error {
	if c.released != nil {
		c.released()
	}
	if c.packing.whole {
		c.memory.matrix <- c.matrix
	}
	blobs, err := c.decoder.Finish()
	if err != nil {
		return fmt.Errorf("tensor %q: %w", c.x.Target.Name, err)
	}
	for _, b := range blobs {
		if err := c.To.WriteTensor(c.x.Target.Name+b.Suffix, b.Data); err != nil {
			return err
		}
	}
	c.decoder, c.rows, c.released = nil, nil, nil
	return c.x.Done(Result{codesSHA, c.packing.codeCounts(), time.Since(c.start)})
}
