package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/pack"
)

// RepackOptions configures Repack.
type RepackOptions struct {
	Layout   string         // name of a layout of package pack
	Params   map[string]int // block factors of the layout; missing ones have their defaults
	Threads  int            // goroutines that compute; 0 = one per CPU
	Progress Progress       // nil = no progress

	fs atomicfile.FS // nil: the operating system's
}

// Repack writes the packed file source to target with all tensors in another layout. Codes, scales, passthrough tensors
// and golden outputs stay the same; digests of the source prove it, and a source that does not match them is refused. A
// conversion of the checkpoint to that layout gives the same bytes.
func Repack(ctx context.Context, source, target string, o RepackOptions) (*Summary, error) {
	start := time.Now()
	if err := apart(target, source); err != nil {
		return nil, err
	}
	in, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	r := &repack{in: in, threads: o.Threads, count: newCounter(o.Progress, dataSize(in))}
	contents, err := r.contents(o)
	if err != nil {
		return nil, filerr.Named(source, err)
	}
	if r.out, err = create(cmp.Or(o.fs, atomicfile.OS), target, *contents); err != nil {
		return nil, err
	}
	defer r.out.Abort()
	if err := r.repackAll(ctx); err != nil {
		return nil, filerr.Named(source, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.out.Commit(); err != nil {
		return nil, err
	}
	m := in.Manifest()
	return &Summary{
		Tensors: tensorsOf(m), Quantized: len(m.Packed),
		BytesIn: in.Size(), BytesOut: r.out.Size(), Elapsed: time.Since(start),
	}, nil
}

type repack struct {
	in      *packed.File
	out     *packed.Writer
	threads int
	count   *counter
}

// contents returns the contents of the source with another layout, in the entries and in the recipe.
func (r *repack) contents(o RepackOptions) (*packed.Contents, error) {
	m := *r.in.Manifest()
	m.Tool = version.Tool
	m.Recipe.Layout, m.Recipe.Params = o.Layout, o.Params
	m.Recipe.Rules = append([]packed.Rule(nil), m.Recipe.Rules...)
	for i := range m.Recipe.Rules {
		m.Recipe.Rules[i].Layout, m.Recipe.Rules[i].Params = "", nil
	}
	m.Packed = append([]packed.Entry(nil), m.Packed...)
	for i := range m.Packed {
		e := &m.Packed[i]
		a, err := pack.FindAlphabet(e.Layout.Alphabet)
		if err != nil {
			return nil, err
		}
		own := e.Quantizer == importCodes || e.Name == packed.HeadName || e.Name == packed.ScreenName
		l, err := openLayout(o.Layout, o.Params, a, own)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
		}
		e.Layout = l.Spec()
		if e.Bytes, err = l.PackedSize(e.MatrixShape()); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
		}
	}
	c := &packed.Contents{Manifest: m}
	if m.Golden != "" {
		record, err := r.in.Section(packed.GoldenName)
		if err != nil {
			return nil, err
		}
		head := make([]byte, min(record.Size(), 8<<10)) // longer than a schema
		if _, err := record.ReadAt(head, 0); err != nil {
			return nil, err
		}
		if err := golden.CheckVersion(head); err != nil {
			return nil, err
		}
		c.Golden = record.Size()
		r.count.total += c.Golden
	}
	return c, nil
}

// repackAll unpacks and packs one tensor after another while it copies all other tensors.
func (r *repack) repackAll(ctx context.Context) error {
	var list []*pipeline.Recode
	for i := range r.in.Manifest().Packed {
		x, err := r.recode(&r.in.Manifest().Packed[i])
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	return pipeline.RecodeAll(ctx, r.out, list, pipeline.UsualLimits, r.threads, r.copyAll)
}

// recode is one tensor on its way from layout to layout.
func (r *repack) recode(e *packed.Entry) (*pipeline.Recode, error) {
	to, ok := r.out.Manifest().Entry(e.Name)
	if !ok {
		return nil, fmt.Errorf("tensor %q is not in the plan", e.Name)
	}
	u, err := newUnpacker(r.in, e)
	if err != nil {
		return nil, err
	}
	return &pipeline.Recode{
		Target: target(to), Panel: u.panel.RowsOf(), Whole: u.panel == nil, Codes: u.rows,
		Bytes: int64(e.StoredBytes()), Progress: r.count.add,
		Done: func(x pipeline.Result) error {
			to.CodesSHA = x.CodesSHA
			return r.finish(e, to)
		},
	}, nil
}

// finish copies what is stored with the codes and compares the digests.
func (r *repack) finish(e, to *packed.Entry) error {
	if to.CodesSHA != e.CodesSHA {
		return damaged(e.Name + packed.PackedSuffix)
	}
	if _, err := newUnits(r.in, e); err != nil {
		return err
	}
	for _, b := range e.Beside() {
		name := e.Name + b.Suffix
		t, err := r.in.Tensor(name)
		if err != nil {
			return err
		}
		data := slices.Clone(t.Data) // a page that is gone is a fault here, and a bad address in a write
		if err := r.out.WriteTensor(name, data); err != nil {
			return err
		}
		if err := r.same(name, *b.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// unpacker reads codes back from the packed bytes of an entry.
type unpacker struct {
	entry    *packed.Entry
	layout   pack.Layout
	alphabet pack.Alphabet
	panel    *pipeline.Panels // nil: all rows at once
	bytes    []byte           // of all matrices
}

func newUnpacker(v packed.View, e *packed.Entry) (*unpacker, error) {
	u := &unpacker{entry: e}
	for i := range e.Experts() {
		if _, err := packed.PackedBytes(v, e, i); err != nil {
			return nil, err
		}
	}
	t, err := v.Tensor(e.Name + packed.PackedSuffix)
	if err != nil {
		return nil, err
	}
	u.bytes = t.Data
	if u.layout, err = pack.Open(e.Layout); err != nil {
		return nil, err
	}
	if u.alphabet, err = pack.FindAlphabet(e.Layout.Alphabet); err != nil {
		return nil, err
	}
	u.panel, err = pipeline.PanelsOf(u.layout, e.MatrixShape(), e.Experts())
	return u, err
}

// rows unpacks the rows from row from on, which are whole panels.
func (u *unpacker) rows(codes []int8, from int) error {
	k := u.entry.MatrixShape().K
	part := &pack.Matrix{Shape: pack.Shape{M: len(codes) / k, K: k}, Alphabet: u.alphabet, Codes: codes}
	bytes := u.bytes[:u.entry.Bytes]
	if u.panel != nil {
		begin, end := u.panel.Span(from, from+part.M)
		bytes = bytes[begin:end]
	}
	if err := u.layout.Unpack(part, bytes); err != nil {
		return fmt.Errorf("tensor %q, rows from %d on: %w", u.entry.Name, from, err)
	}
	return nil
}

// copyAll copies all tensors without a layout, and the digests of the sources.
func (r *repack) copyAll(ctx context.Context) error {
	m := r.in.Manifest()
	for _, p := range m.Plain {
		if err := r.copy(ctx, p.Name, p.SHA256); err != nil {
			return err
		}
	}
	for i, s := range m.Sources {
		r.out.Manifest().Sources[i].SHA256 = s.SHA256
	}
	if m.Golden == "" {
		return nil
	}
	return r.copy(ctx, packed.GoldenName, m.Golden)
}

// copy copies a tensor and compares its digest.
func (r *repack) copy(ctx context.Context, name, digest string) error {
	from, err := r.in.Section(name)
	if err != nil {
		return err
	}
	to, err := r.out.Stream(name)
	if err != nil {
		return err
	}
	if err := r.count.copy(ctx, to, from, name); err != nil {
		return err
	}
	if at, err := from.Seek(0, io.SeekCurrent); err != nil || at < from.Size() {
		return fmt.Errorf("%w: tensor %q: the file became shorter while it was read", pack.ErrCorrupt, name)
	}
	if err := to.Close(); err != nil {
		return err
	}
	return r.same(name, digest)
}

func (r *repack) same(name, digest string) error {
	if r.out.Digest(name) != digest {
		return damaged(name)
	}
	return nil
}

func damaged(name string) error {
	return fmt.Errorf("%w: tensor %q does not match its digest in the manifest: the file is damaged",
		pack.ErrCorrupt, name)
}

// dataSize is the number of bytes of all tensors but the scales, which take no time, and golden outputs.
func dataSize(f *packed.File) (n int64) {
	for i := range f.Manifest().Packed {
		n += int64(f.Manifest().Packed[i].StoredBytes())
	}
	for _, p := range f.Manifest().Plain {
		if s, err := f.Section(p.Name); err == nil {
			n += s.Size()
		}
	}
	return n
}
