package convert

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// copyJob copies one tensor as it is. A model that holds NaN or infinity is refused: nothing could be computed with it.
type copyJob struct {
	r     *run
	s     *step
	out   *packed.Stream
	unit  int64 // bytes of a chunk
	start time.Time
	left  atomic.Int64 // what is to be done until the tensor is complete: a digest and a write per chunk, and its beginning
}

func (r *run) newCopyJob(s *step, unit int64) (*copyJob, error) {
	k := &copyJob{r: r, s: s, unit: unit, start: time.Now()}
	k.left.Add(1)
	var err error
	k.out, err = r.w.Stream(s.from.Name)
	return k, err
}

func (k *copyJob) uses(*chunk, int) int { return 1 }

// take copies chunk i, and has it digested.
func (k *copyJob) take(c *chunk, i int) {
	off := int64(i) * k.unit
	k.left.Add(2)
	c.also, c.digested = k.out.Hash(), k.done
	k.r.pool.add(c.at, func() error {
		if err := k.write(c, off); err != nil {
			return err
		}
		c.release()
		return k.done()
	})
}

func (k *copyJob) write(c *chunk, off int64) error {
	t := k.s.from
	if i := notFinite(t.DType, c.data); k.r.model != nil && i >= 0 {
		return inTensor(t, fmt.Errorf("%w: element %d is NaN or infinite", pack.ErrCorrupt, off/t.DType.Size()+int64(i)))
	}
	if err := k.out.Put(c.data, off); err != nil {
		return err
	}
	k.r.count.add(t.Name, int64(len(c.data)))
	return nil
}

// end says that all is read.
func (k *copyJob) end(context.Context) error { return k.done() }

// done ends a part of the work, and with the last one the tensor.
func (k *copyJob) done() error {
	if k.left.Add(-1) > 0 {
		return nil
	}
	if err := k.out.Close(); err != nil {
		return err
	}
	k.s.outcome.took = time.Since(k.start)
	return k.r.finished(k.s)
}
