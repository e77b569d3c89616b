package convert

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// Summary describes a finished conversion.
type Summary struct {
	Tensors   int `json:"tensors"`
	Quantized int `json:"quantized"` // of the tensors
	// tensors of the checkpoint, each once; of merge, repack and unpack, the files that are read
	BytesIn  int64         `json:"bytes_in"`
	BytesOut int64         `json:"bytes_out"` // the packed file
	Elapsed  time.Duration `json:"elapsed_ns"`
	Golden   time.Duration `json:"golden_ns"`         // of that: computing the golden outputs
	Rounded  int           `json:"rounded,omitempty"` // unpack: tensors whose weights are rounded to BF16
}

// tensorsOf counts the tensors of a packed file, without the files that are embedded in it.
func tensorsOf(m *packed.Manifest) int {
	n := len(m.Packed)
	for _, t := range m.Plain {
		if !strings.HasPrefix(t.Name, packed.FilePrefix) {
			n++
		}
	}
	return n
}

// Run writes the packed file, or a part of it, to target. It appears whole or not at all: on an error, or when ctx is
// cancelled, the target is unchanged and nothing else is left but, with Options.Resume, the state that the next Run
// resumes from. A plan can be run once; a second Run is an error.
func (p *Plan) Run(ctx context.Context, target string) (*Summary, error) {
	start := time.Now()
	if p.ran.Swap(true) {
		return nil, errors.New("a plan is run once; make another one with NewPlan")
	}
	if err := apart(target, p.path); err != nil {
		return nil, err
	}
	defer p.calibration.close()
	if err := p.calibrate(ctx, target); err != nil {
		return nil, err
	}
	r, err := p.newRun(target)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.restore(ctx); err != nil {
		return nil, err
	}
	if err := r.convert(ctx); err != nil {
		return nil, err
	}
	tensors := time.Now()
	if p.o.Parts == 0 {
		if err := recordGolden(ctx, p.o.Threads, r.w, p.described(), p.golden, p.o.Progress); err != nil {
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
	p.calibration.close()
	p.drop(target + CodesSuffix)
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
	journal            *journal // nil: not resumable
	count              *counter // bytes of the tensors of the share
	tensors, quantized int      // of the share
}

func (p *Plan) newRun(target string) (*run, error) {
	r := &run{Plan: p, todo: p.whole()}
	contents := p.contents
	if p.o.Parts > 0 {
		r.todo = p.share(p.o.Part, p.o.Parts)
		contents.Part = r.todo.part()
	}
	r.count = newCounter(p.o.Progress, r.todo.bytesIn())
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
		r.w, err = create(p.fs, target, contents)
	}
	return r, err
}

// commit puts the file at its target. State of an earlier interrupted run for the same target is then obsolete.
func (r *run) commit(target string) error {
	if err := r.w.Commit(); err != nil {
		return err
	}
	if r.journal != nil {
		r.journal.remove()
		r.journal = nil
	} else {
		r.drop(target)
	}
	return nil
}

// drop removes what an interrupted run has left for a target.
func (p *Plan) drop(target string) {
	if atomicfile.DropResume(target) {
		p.fs.Remove(JournalPath(target))
	}
}

// close ends a run that has not been committed.
func (r *run) close() {
	r.w.Abort()
	if r.journal != nil {
		r.journal.file.Close()
	}
}

// inFileOrder sorts the steps by the position of their tensors in the source files, so that files are read from front
// to back. An empty tensor begins where the next one does.
func (p *Plan) inFileOrder() []*step {
	return slices.SortedFunc(slices.Values(p.steps), func(a, b *step) int {
		x, y := a.from, b.from
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Size, y.Size),
			cmp.Compare(x.Name, y.Name))
	})
}

func (p *Plan) bytesIn() (n int64) {
	for _, s := range p.steps {
		n += s.row.BytesIn
	}
	return n
}

// convert carries out the steps of the share.
func (r *run) convert(ctx context.Context) error {
	if err := r.embed(); err != nil {
		return err
	}
	job := &pipeline.Job{Files: r.files(), Read: r.read, To: r.w, Threads: r.o.Threads,
		Limits: r.limits, Progress: r.count.add}
	for _, s := range r.todo.steps {
		if s.entry == nil {
			job.Copies = append(job.Copies, r.copy(s))
		} else {
			job.Tensors = append(job.Tensors, r.tensor(s))
		}
	}
	return job.Run(ctx)
}

// files returns the files of the checkpoint; files of the share are digested.
func (r *run) files() (list []pipeline.File) {
	for _, s := range r.source.Sources() {
		f := pipeline.File{Name: s.Name, Size: s.Size,
			Open: func() (io.ReaderAt, error) { return r.source.OpenSource(s.Name) }}
		if slices.Contains(r.todo.sources, s.Name) {
			f.Digest = func(sha256 string) error { return r.digested(s.Name, sha256) }
		}
		list = append(list, f)
	}
	// computed tensors follow from the other files, whose digests reveal changes
	for _, v := range r.source.Views() {
		list = append(list, pipeline.File{Name: v.Name, Size: v.Size,
			Open: func() (io.ReaderAt, error) { return nil, nil }})
	}
	return list
}

// digested notes the digest of a source file.
func (r *run) digested(name, sha256 string) error {
	sourceOf(r.w.Manifest(), name).SHA256 = sha256
	if r.journal == nil {
		return nil
	}
	return r.journal.add(note{Source: name, SHA256: sha256})
}

// copy returns the job of a passthrough tensor. A model that holds NaN or infinity is refused: it could not be run.
func (r *run) copy(s *step) *pipeline.Copy {
	return &pipeline.Copy{From: s.from, Finite: r.model != nil, Done: func(x pipeline.Result) error {
		s.outcome.took = x.Took
		return r.finished(s)
	}}
}

// tensor returns the job of a quantized matrix.
func (r *run) tensor(s *step) *pipeline.Tensor {
	var d coder
	return &pipeline.Tensor{
		Target: target(s.entry), Source: s.source, Bytes: s.row.BytesIn, Count: r.o.Report, Measured: s.twice,
		Open: func(beside [][]byte) (_ pipeline.Decoder, err error) {
			d, err = s.open(beside)
			return d, err
		},
		Done: func(x pipeline.Result) error {
			e, _ := r.w.Manifest().Entry(s.entry.Name)
			e.CodesSHA = x.CodesSHA
			if r.o.Report {
				s.outcome.of(s.entry, x, d)
			}
			s.open, d = nil, nil // release what they hold
			return r.finished(s)
		},
	}
}

// target of the codes of an entry.
func target(e *packed.Entry) pipeline.Target {
	return pipeline.Target{Name: e.Name, Layout: e.Layout, Shape: e.MatrixShape(), Experts: e.Experts(), Bytes: e.Bytes}
}

// embed writes the small files of the checkpoint.
func (r *run) embed() error {
	for _, name := range r.todo.files {
		b, _ := r.source.File(name)
		if err := r.w.WriteTensor(packed.FilePrefix+name, b); err != nil {
			return err
		}
	}
	return nil
}

// sourceOf returns the entry of a source file; nil if there is none. It reads only names, because digests of other
// files may be written concurrently.
func sourceOf(m *packed.Manifest, name string) *packed.Source {
	for i := range m.Sources {
		if m.Sources[i].Name == name {
			return &m.Sources[i]
		}
	}
	return nil
}
