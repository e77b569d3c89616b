package pipeline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// copying stores one tensor unchanged. On request NaN and infinity are refused: no model could be run with them.
type copying struct {
	r     *run
	k     *Copy
	out   *packed.Stream
	unit  int64 // bytes of a chunk
	start time.Time
	// operations left until the tensor is complete: a digest and a write per chunk, and its beginning
	left atomic.Int64
}

func (r *run) newCopying(k *Copy, unit int64) (*copying, error) {
	c := &copying{r: r, k: k, unit: unit, start: time.Now()}
	c.left.Add(1)
	var err error
	c.out, err = r.To.Stream(k.From.Name)
	return c, err
}

func (c *copying) uses(*chunk, int) int { return 1 }

// take copies chunk i, and has it digested.
func (c *copying) take(x *chunk, i int) {
	off := int64(i) * c.unit
	c.left.Add(2)
	x.also, x.digested = c.out.Hash(), c.done
	c.r.schedule.addFresh(x.at, func() error {
		if err := c.write(x, off); err != nil {
			return err
		}
		x.release()
		return c.done()
	})
}

func (c *copying) write(x *chunk, off int64) error {
	t := c.k.From
	if i := NotFinite(t.DType, x.data); c.k.Finite && i >= 0 {
		return inTensor(t, fmt.Errorf("%w: element %d is NaN or infinite", pack.ErrCorrupt,
			off/t.DType.Size()+int64(i)))
	}
	if err := c.out.Put(x.data, off); err != nil {
		return err
	}
	c.r.Progress(t.Name, int64(len(x.data)))
	return nil
}

// end reports that all chunks are read.
func (c *copying) end(context.Context) error { return c.done() }

// done completes one operation, and with the last one the tensor.
func (c *copying) done() error {
	if c.left.Add(-1) > 0 {
		return nil
	}
	if err := c.out.Close(); err != nil {
		return err
	}
	return c.k.Done(Result{Took: time.Since(c.start)})
}
