package convert

import (
	"context"
	"io"
	"sync"
)

// Progress tells how far a conversion is: first bytes of tensors that are done, of all there are; then the weights that
// golden outputs have been computed with, of another total. Calls come from several goroutines, one at a time.
type Progress func(what string, done, total int64)

// GoldenPhase is what Progress is told while golden outputs are computed, which is counted in weights instead of bytes.
const GoldenPhase = "golden outputs"

// counter adds up what is done.
type counter struct {
	report Progress
	total  int64

	mu   sync.Mutex
	done int64
}

func newCounter(report Progress, total int64) *counter { return &counter{report: report, total: total} }

func (c *counter) add(what string, n int64) {
	if c.report == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += n
	c.report(what, c.done, c.total)
}

// copy copies all of src in pieces, counting, until the context ends.
func (c *counter) copy(ctx context.Context, dst io.Writer, src io.Reader, what string) error {
	_, err := io.CopyBuffer(counted{dst, c, what}, cancellable{ctx, src}, make([]byte, 1<<20))
	return err
}

type counted struct {
	io.Writer
	c    *counter
	what string
}

func (w counted) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.c.add(w.what, int64(n))
	return n, err
}

// cancellable is a reader that ends with the context.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
