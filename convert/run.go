package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Progress tells how far a conversion is: first bytes of tensors that are done, of all there are; then the weights that
// golden outputs have been computed with, of another total. Calls come from several goroutines, one at a time.
type Progress func(what string, done, total int64)

// Summary of a finished conversion.
type Summary struct {
	Tensors   int           `json:"tensors"`
	Quantized int           `json:"quantized"` // of the tensors
	BytesIn   int64         `json:"bytes_in"`  // tensors of the checkpoint
	BytesOut  int64         `json:"bytes_out"` // the packed file
	Elapsed   time.Duration `json:"elapsed_ns"`
	Golden    time.Duration `json:"golden_ns"` // of that: computing the golden outputs
}

// Run writes the packed file to target. It appears whole or not at all: on an error, or when ctx is cancelled, the target
// is as it was and nothing is left beside it. A plan is run once.
func (p *Plan) Run(ctx context.Context, target string, progress Progress) (*Summary, error) {
	start := time.Now()
	if err := apart(target, p.path); err != nil {
		return nil, err
	}
	w, err := packed.Create(p.fs, target, p.contents)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	r := &run{Plan: p, w: w, report: progress}
	for _, s := range p.steps {
		r.total += s.row.BytesIn
	}
	if err := together(ctx, r.packAll, r.keepAll, r.digestSources); err != nil {
		return nil, err
	}
	tensors := time.Now()
	if err := recordGolden(ctx, w, p.described(), p.golden, progress); err != nil {
		return nil, err
	}
	s := r.summary()
	s.Golden = time.Since(tensors)
	if err := p.source.Unchanged(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := w.Commit(); err != nil {
		return nil, err
	}
	s.Elapsed = time.Since(start)
	return s, nil
}

// run is the state of one Run.
type run struct {
	*Plan
	w      *packed.Writer
	report Progress
	total  int64 // bytes of all tensors

	mu   sync.Mutex
	done int64 // bytes of them
}

func (r *run) summary() *Summary {
	return &Summary{
		Tensors: len(r.steps), Quantized: len(r.w.Manifest().Packed),
		BytesIn: r.total, BytesOut: r.w.Size(),
	}
}

// add counts bytes of a tensor as done.
func (r *run) add(tensor string, n int64) {
	if r.report == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	r.report(tensor, r.done, r.total)
}

// keepAll copies the tensors that are kept, and the embedded files.
func (r *run) keepAll(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for _, s := range r.steps {
		if s.entry != nil {
			continue
		}
		if err := r.keep(ctx, s, buf); err != nil {
			return err
		}
	}
	for _, name := range embeddedFiles {
		if b, ok := r.source.File(name); ok {
			if err := r.w.WriteTensor(packed.FilePrefix+name, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep copies one tensor. A model that holds NaN or infinity is refused: nothing could be computed with it.
func (r *run) keep(ctx context.Context, s *step, buf []byte) error {
	out, err := r.w.Stream(s.from.Name)
	if err != nil {
		return err
	}
	for off := int64(0); off < s.from.Size; off += int64(len(buf)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(int64(len(buf)), s.from.Size-off)]
		if err := r.read(s.from, part, off); err != nil {
			return err
		}
		if i := notFinite(s.from.DType, part); r.model != nil && i >= 0 {
			return inTensor(s.from, fmt.Errorf("%w: element %d is NaN or infinite", pack.ErrCorrupt, off/s.from.DType.Size()+int64(i)))
		}
		if _, err := out.Write(part); err != nil {
			return err
		}
		r.add(s.from.Name, int64(len(part)))
	}
	return out.Close()
}

// digestSources computes the SHA-256 of every file of the checkpoint. They are read again, apart from the tensors: a
// digest goes through a file from front to back, whatever the order of the tensors.
func (r *run) digestSources(ctx context.Context) error {
	sources := r.w.Manifest().Sources
	return parallel(ctx, r.jobs, len(sources), func(_, i int) error {
		f, err := r.source.OpenSource(sources[i].Name)
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.CopyBuffer(h, cancellable{ctx, f}, make([]byte, 1<<18))
		if err != nil {
			return fmt.Errorf("%s: %w", sources[i].Name, err)
		}
		if n != sources[i].Size {
			return fmt.Errorf("%w: %s has %d bytes; it had %d", pack.ErrCorrupt, sources[i].Name, n, sources[i].Size)
		}
		sources[i].SHA256 = hex.EncodeToString(h.Sum(nil))
		return nil
	})
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
