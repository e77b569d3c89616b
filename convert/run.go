package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// Summary of a finished conversion.
type Summary struct {
	Tensors   int           `json:"tensors"`
	Quantized int           `json:"quantized"` // of the tensors
	BytesIn   int64         `json:"bytes_in"`  // tensors of the checkpoint
	BytesOut  int64         `json:"bytes_out"` // the packed file
	Elapsed   time.Duration `json:"elapsed_ns"`
	Golden    time.Duration `json:"golden_ns"` // of that: computing the golden outputs
}

// Run writes the packed file, or a part of it, to target. It appears whole or not at all: on an error, or when ctx is
// cancelled, the target is as it was and nothing is left beside it but, with Options.Resume, what the next Run continues
// from. A plan is run once.
func (p *Plan) Run(ctx context.Context, target string, progress Progress) (*Summary, error) {
	start := time.Now()
	if err := apart(target, p.path); err != nil {
		return nil, err
	}
	r, err := p.newRun(target, progress)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.restore(ctx); err != nil {
		return nil, err
	}
	if err := together(ctx, r.packAll, r.keepAll, r.digestSources); err != nil {
		return nil, err
	}
	tensors := time.Now()
	if p.o.Parts == 0 {
		if err := recordGolden(ctx, r.w, p.described(), p.golden, progress); err != nil {
			return nil, err
		}
	}
	golden := time.Since(tensors)
	if err := p.source.Unchanged(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.commit(target); err != nil {
		return nil, err
	}
	return &Summary{
		Tensors: r.tensors, Quantized: r.quantized, BytesIn: r.count.total, BytesOut: r.w.Size(),
		Elapsed: time.Since(start), Golden: golden,
	}, nil
}

// run is the state of one Run.
type run struct {
	*Plan
	todo               share
	w                  *packed.Writer
	journal            *journal // nil: nothing can be resumed
	cores              cores
	count              *counter // bytes of the tensors of the share
	tensors, quantized int      // of the share
}

func (p *Plan) newRun(target string, progress Progress) (*run, error) {
	r := &run{Plan: p, todo: p.whole(), cores: newCores(p.o.Jobs)}
	contents := p.contents
	if p.o.Parts > 0 {
		r.todo = p.share(p.o.Part, p.o.Parts)
		contents.Part = r.todo.part()
	}
	r.count = newCounter(progress, r.todo.bytesIn())
	r.tensors = len(r.todo.steps)
	for _, s := range r.todo.steps {
		if s.entry != nil {
			r.quantized++
		}
	}
	var err error
	if p.o.Resume {
		r.w, r.journal, err = p.resume(target, contents)
	} else {
		r.w, err = packed.Create(p.fs, target, contents)
	}
	return r, err
}

// commit puts the file at its target. What an earlier interrupted run left for the same target is then of no use.
func (r *run) commit(target string) error {
	if err := r.w.Commit(); err != nil {
		return err
	}
	if r.journal != nil {
		r.journal.remove()
		r.journal = nil
	} else if atomicfile.DropResume(target) {
		r.fs.Remove(journalPath(target))
	}
	return nil
}

// close ends a run that has not come to its commit.
func (r *run) close() {
	r.w.Abort()
	if r.journal != nil {
		r.journal.file.Close()
	}
}

// inFileOrder sorts the steps as the source files hold their tensors, so that they are read from front to back.
func (p *Plan) inFileOrder() []*step {
	return slices.SortedFunc(slices.Values(p.steps), func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.from.File, b.from.File), cmp.Compare(a.from.Begin, b.from.Begin))
	})
}

func (p *Plan) bytesIn() (n int64) {
	for _, s := range p.steps {
		n += s.row.BytesIn
	}
	return n
}

// keepAll copies the tensors that are kept, and the embedded files.
func (r *run) keepAll(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for _, s := range r.todo.steps {
		if s.entry != nil {
			continue
		}
		if err := r.keep(ctx, s, buf); err != nil {
			return err
		}
		if err := r.finished(s); err != nil {
			return err
		}
	}
	for _, name := range r.todo.files {
		b, _ := r.source.File(name)
		if err := r.w.WriteTensor(packed.FilePrefix+name, b); err != nil {
			return err
		}
	}
	return nil
}

// keep copies one tensor. A model that holds NaN or infinity is refused: nothing could be computed with it.
func (r *run) keep(ctx context.Context, s *step, buf []byte) error {
	start := time.Now()
	defer func() { s.outcome.took = time.Since(start) }()
	out, err := r.w.Stream(s.from.Name)
	if err != nil {
		return err
	}
	for off := int64(0); off < s.from.Size; off += int64(len(buf)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(int64(len(buf)), s.from.Size-off)]
		if err := r.cores.run(ctx, func() error { return r.keepPart(s.from, out, part, off) }); err != nil {
			return err
		}
		r.count.add(s.from.Name, int64(len(part)))
	}
	return out.Close()
}

func (r *run) keepPart(t checkpoint.Tensor, out *packed.Stream, part []byte, off int64) error {
	if err := r.read(t, part, off); err != nil {
		return err
	}
	if i := notFinite(t.DType, part); r.model != nil && i >= 0 {
		return inTensor(t, fmt.Errorf("%w: element %d is NaN or infinite", pack.ErrCorrupt, off/t.DType.Size()+int64(i)))
	}
	_, err := out.Write(part)
	return err
}

// digestSources computes the SHA-256 of every file of the checkpoint. They are read again, apart from the tensors: a
// digest goes through a file from front to back, whatever the order of the tensors. Half of the cores at most are busy
// with that, as what becomes of the tensors takes about as long.
func (r *run) digestSources(ctx context.Context) error {
	return parallel(ctx, max(1, r.o.Jobs/2), len(r.todo.sources), func(_, i int) error {
		s := sourceOf(r.w.Manifest(), r.todo.sources[i])
		if err := r.cores.run(ctx, func() error { return r.digestSource(ctx, s) }); err != nil {
			return err
		}
		if r.journal == nil {
			return nil
		}
		return r.journal.add(note{Source: s.Name, SHA256: s.SHA256})
	})
}

func (r *run) digestSource(ctx context.Context, s *packed.Source) error {
	f, err := r.source.OpenSource(s.Name)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.CopyBuffer(h, cancellable{ctx, f}, make([]byte, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if n != s.Size {
		return fmt.Errorf("%w: %s has %d bytes; it had %d", pack.ErrCorrupt, s.Name, n, s.Size)
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// sourceOf is the entry of a source file; nil when there is none. It looks at names alone: digests of other files may be
// written at the same time.
func sourceOf(m *packed.Manifest, name string) *packed.Source {
	for i := range m.Sources {
		if m.Sources[i].Name == name {
			return &m.Sources[i]
		}
	}
	return nil
}
