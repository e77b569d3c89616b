package convert

import (
	"context"
	"io"
	"sync"
)

// Progress reports how far an operation has got: done of total. what is the name of a tensor, and done counts bytes; or
// what is one of the phases below, which have their own totals. Calls come from several goroutines, one at a time; the
// operation waits for each.
type Progress func(what string, done, total int64)

// The phases that Progress reports in addition to tensor names.
const (
	SelfTextPhase    = "calibration text" // floats write a text to calibrate with: tokens
	CalibrationPhase = "calibration"      // floats compute the calibration text: tokens
	FeedbackPhase    = "error feedback"   // codes are chosen with the Gram matrices of the calibration text: weights
	SensitivityPhase = "sensitivity"      // the model computes some tokens with a group of weights quantized: groups
	GoldenPhase      = "golden outputs"   // golden outputs are computed: weights
)

// in returns a callback that reports a phase.
func (p Progress) in(phase string) func(done, total int64) {
	return func(done, total int64) {
		if p != nil {
			p(phase, done, total)
		}
	}
}

// counter sums up the progress.
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
