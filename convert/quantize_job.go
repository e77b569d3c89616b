package convert

import (
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/convert/report"
	"github.com/lowpack/lowpack/formats/packed"
)

// quantizeJob makes the codes of one tensor from what flows by: from floats, in one or two passes, or from packed U8 codes.
type quantizeJob struct {
	r      *run
	s      *step
	t      *packing
	in     *reader
	q      *quantize.Quantizer // nil: the codes are imported
	passes int                 // over the floats; 1 if pass 1 was part of the plan
	start  time.Time

	stay   stay
	rows   int // of a chunk; 0: a row takes more than one
	chunks []*chunk
	next   int // block that is not yet begun

	missing atomic.Int32 // what is still to be measured, and the end of reading
	matrix  []byte       // of the memory
}

// stay says how long chunks of a tensor remain in memory.
type stay int

const (
	forFlow   stay = iota // until they are digested and measured: blocks are read again
	forBlocks             // until the blocks that lie in them are packed
	forTensor             // until the tensor is complete
)

func (r *run) newQuantizeJob(s *step) (*quantizeJob, error) {
	t := r.packings[s]
	c := &quantizeJob{r: r, s: s, t: t, passes: 1, in: newReader(r.read, s.from, t.shape.K), start: time.Now()}
	c.rows = r.limits.chunk / c.in.row
	c.missing.Store(1)
	t.fill, t.finish, t.count = c.fromFloats, c.finish, r.o.Report
	t.wrote = func(rows int) { r.count.add(s.row.Tensor, s.row.BytesIn*int64(rows)/int64(s.row.Shape[0])) }
	if s.scale != 0 {
		t.fill = c.fromU8
	} else if err := c.quantizer(); err != nil {
		return nil, err
	}
	if t.whole {
		return c, nil
	}
	return c, t.begin(r.pool, nil)
}

func (c *quantizeJob) quantizer() error {
	if c.q = c.s.probed; c.q != nil {
		return nil
	}
	var err error
	c.s.job.Stats = c.r.o.Report
	if c.q, err = quantize.New(c.s.job); err != nil {
		return inTensor(c.s.from, err)
	}
	c.passes = c.q.Passes()
	return nil
}

// lasts reports whether the whole tensor should stay in memory: for a second pass, or as a byte of U8 codes belongs to
// rows that lie a quarter of the matrix apart.
func (c *quantizeJob) lasts() bool { return c.rows > 0 && (c.passes == 2 || c.q == nil) }

// settle decides how long chunks stay, of which as many stay as there are if the tensor is granted that.
func (c *quantizeJob) settle(granted bool) {
	c.chunks = make([]*chunk, c.chunkCount())
	switch {
	case c.lasts() && granted && c.q == nil:
		c.stay = forTensor
	case c.lasts() && granted:
		c.stay = forBlocks
	case c.rows > 0 && !c.lasts() && !c.t.whole && c.t.blocks.most() <= c.rows:
		c.stay = forBlocks // a block lies in two chunks at most
	}
}

func (c *quantizeJob) chunkCount() int {
	if c.rows == 0 {
		return 0
	}
	return (int(c.s.from.Size)/c.in.row + c.rows - 1) / c.rows
}

// uses counts for how much chunk i will be needed.
func (c *quantizeJob) uses(k *chunk, i int) (n int) {
	if c.measures() {
		n++
	}
	switch c.stay {
	case forBlocks:
		n += c.t.blocks.overlap(i*c.rows, i*c.rows+len(k.data)/c.in.row)
	case forTensor:
		n++
	}
	return n
}

// measures reports whether pass 1 is done on what flows by.
func (c *quantizeJob) measures() bool { return c.passes == 2 && c.rows > 0 }

// take puts chunk i to its uses.
func (c *quantizeJob) take(k *chunk, i int) {
	if c.stay != forFlow {
		c.chunks[i] = k
	}
	row := i * c.rows
	if c.measures() {
		c.missing.Add(1)
		c.r.pool.add(k.at, func() error {
			if err := c.q.Measure(row, k.data); err != nil {
				return inTensor(c.s.from, err)
			}
			k.release()
			return c.arrived()
		})
	} else if c.stay == forBlocks {
		c.beginBlocks(row + len(k.data)/c.in.row)
	}
}

// end says that all is read. The whole matrix is in memory for one tensor at a time.
func (c *quantizeJob) end(ctx context.Context) error {
	if c.t.whole {
		select {
		case c.matrix = <-c.r.memory.matrix:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := c.t.begin(c.r.pool, c.matrix); err != nil {
			return err
		}
	}
	if c.passes == 2 && !c.measures() {
		c.measureAgain()
	}
	return c.arrived()
}

// measureAgain is pass 1 over rows that are too long for a chunk.
func (c *quantizeJob) measureAgain() {
	for i := range c.t.blocks.count() {
		from, to := c.t.blocks.at(i)
		c.missing.Add(1)
		c.r.pool.addBlock(c.at(from), func(s *slot) error {
			if err := c.in.rows(s.in, from, to, c.q.Measure); err != nil {
				return err
			}
			c.r.pool.giveBack(s)
			return c.arrived()
		})
	}
}

// at is the place of a row in all source files; for imported codes it is one of the right order.
func (c *quantizeJob) at(row int) int64 {
	return c.r.base[c.s.from.File] + c.s.from.Begin + int64(row)*(c.s.from.Size/int64(c.t.shape.M))
}

// arrived ends a part of what must precede the codes.
func (c *quantizeJob) arrived() error {
	if c.missing.Add(-1) > 0 {
		return nil
	}
	if c.passes == 2 {
		if err := c.q.Fix(); err != nil {
			return inTensor(c.s.from, err)
		}
	}
	c.beginBlocks(c.t.shape.M)
	return nil
}

// beginBlocks hands out the blocks that end before a row.
func (c *quantizeJob) beginBlocks(end int) {
	for ; c.next < c.t.blocks.count(); c.next++ {
		i := c.next
		from, to := c.t.blocks.at(i)
		if to > end {
			return
		}
		c.r.pool.addBlock(c.at(from), func(s *slot) error { return c.t.block(s, i) })
	}
}

// pieces calls do for the stored rows [from, to), piece by piece, from memory or read again.
func (c *quantizeJob) pieces(s *slot, from, to int, do func(row int, data []byte) error) error {
	if c.stay == forFlow {
		return c.in.rows(s.in, from, to, do)
	}
	for row := from; row < to; {
		first := row / c.rows * c.rows
		end := min(first+c.rows, to)
		if err := do(row, c.chunks[row/c.rows].data[(row-first)*c.in.row:(end-first)*c.in.row]); err != nil {
			return inTensor(c.s.from, err)
		}
		row = end
	}
	return nil
}

// fromFloats is the last pass of a quantizer.
func (c *quantizeJob) fromFloats(s *slot, codes []int8, from, to int) error {
	k := c.t.shape.K
	err := c.pieces(s, from, to, func(row int, data []byte) error {
		n := len(data) / c.in.row
		return c.q.Quantize(codes[(row-from)*k:(row-from+n)*k], row, data)
	})
	if err == nil && c.stay == forBlocks {
		for i := from / c.rows; i <= (to-1)/c.rows; i++ {
			c.chunks[i].release()
		}
	}
	return err
}

// fromU8 takes over packed codes. Row m is stored in row m mod R, of which there are R = ⌈M/4⌉; there may be rows past M.
func (c *quantizeJob) fromU8(s *slot, codes []int8, from, to int) error {
	shape := c.t.shape
	stored := (shape.M + 3) / 4
	if to == shape.M {
		to = 4 * stored
	}
	for row := from; row < to; {
		end := min(to, (row/stored+1)*stored)
		before := row - row%stored
		err := c.pieces(s, row-before, end-before, func(at int, data []byte) error {
			m := before + at
			return quantize.UnpackU8(codes[min((m-from)*shape.K, len(codes)):], shape, m, data)
		})
		if err != nil {
			return err
		}
		row = end
	}
	return nil
}

// finish ends the tensor and writes its scales.
func (c *quantizeJob) finish() error {
	if c.stay == forTensor {
		for _, k := range c.chunks {
			k.release()
		}
	}
	if c.t.whole {
		c.r.memory.matrix <- c.matrix
	}
	scales := []float32{c.s.scale}
	if c.q != nil {
		scales = c.q.Scales()
	}
	if err := c.r.w.WriteTensor(c.s.entry.Name+packed.ScaleSuffix, floatBytes(scales)); err != nil {
		return err
	}
	c.report(scales)
	c.s.probed = nil
	return c.r.finished(c.s)
}

func (c *quantizeJob) report(scales []float32) {
	o := &c.s.outcome
	o.took = time.Since(c.start)
	if !c.r.o.Report {
		return
	}
	o.codes, o.scales = report.Codes(c.t.alpha, c.t.codeCounts()), report.ScalesOf(scales)
	if c.s.job.Stats {
		e := c.q.Stats().RelError
		o.relError = &e
	}
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
