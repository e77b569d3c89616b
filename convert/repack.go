package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/pack"
)

// RepackOptions of a change of layout.
type RepackOptions struct {
	Layout string
	Params map[string]int
	Jobs   int // goroutines; 0 = one per CPU

	fs atomicfile.FS // nil: that of the operating system
}

// Repack writes the packed file source to target with all tensors in another layout. Codes, scales, passthrough tensors and
// golden outputs are the same; digests of the source prove it, and a source that does not match them is refused. The
// bytes are those that a conversion of the checkpoint to that layout gives.
func Repack(ctx context.Context, source, target string, o RepackOptions, progress Progress) (*Summary, error) {
	start := time.Now()
	if err := apart(target, source); err != nil {
		return nil, err
	}
	in, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	r := &repack{in: in, jobs: o.Jobs, count: newCounter(progress, dataSize(in))}
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
	in    *packed.File
	out   *packed.Writer
	jobs  int
	count *counter
}

// contents is the source with another layout, in the entries and in what the recipe asks for.
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
		l, err := openLayout(o.Layout, o.Params, a, e.Name == packed.HeadName || e.Name == packed.ScreenName)
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

// repackAll unpacks and packs one tensor after another while it copies everything else.
func (r *repack) repackAll(ctx context.Context) error {
	var d demand
	var list []*repacking
	for i := range r.in.Manifest().Packed {
		p, err := r.newRepacking(&r.in.Manifest().Packed[i])
		if err != nil {
			return err
		}
		p.t.demand(&d, 0)
		list = append(list, p)
	}
	m, err := newMemory(usualLimits, d, r.jobs)
	if err != nil {
		return err
	}
	defer m.close()
	c := newWorkerPool(r.jobs, m.slots)
	return c.run(ctx, r.copyAll, func(ctx context.Context) error {
		for _, p := range list {
			if err := p.run(ctx, c, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// repacking is one tensor on its way from layout to layout.
type repacking struct {
	r    *repack
	e    *packed.Entry
	u    *unpacker
	t    *packing
	done chan struct{}

	counted atomic.Int64 // bytes, rounded down for each block
}

func (r *repack) newRepacking(e *packed.Entry) (*repacking, error) {
	p := &repacking{r: r, e: e, done: make(chan struct{})}
	var err error
	if p.u, err = newUnpacker(r.in, e); err != nil {
		return nil, err
	}
	if p.t, err = newPacking(r.out, e.Name, p.u.panel.rowsOf(), p.u.panel == nil); err != nil {
		return nil, err
	}
	p.t.fill = func(_ *slot, codes []int8, from, _ int) error { return p.u.rows(codes, from) }
	p.t.wrote = func(rows int) {
		n := int64(e.StoredBytes()) * int64(rows) / int64(e.Shape[0])
		p.counted.Add(n)
		r.count.add(e.Name, n)
	}
	p.t.finish = p.finish
	return p, nil
}

// run hands all blocks out and waits until they are written.
func (p *repacking) run(ctx context.Context, c *workerPool, m *memory) error {
	matrix := <-m.matrix
	defer func() { m.matrix <- matrix }()
	if err := p.t.begin(c, matrix); err != nil {
		return err
	}
	if p.u.panel == nil {
		p.t.fill = func(*slot, []int8, int, int) error { return nil }
		if err := p.u.rows(p.t.matrix, 0); err != nil {
			return err
		}
	}
	for i := range p.t.blocks.count() {
		c.addBlock(int64(i), func(s *slot) error { return p.t.block(s, i) })
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish copies the scales and compares the digests.
func (p *repacking) finish() error {
	defer close(p.done)
	p.r.count.add(p.e.Name, int64(p.e.StoredBytes())-p.counted.Load())
	if _, err := packed.Scales(p.r.in, p.e); err != nil {
		return err
	}
	scales, err := p.r.in.Tensor(p.e.Name + packed.ScaleSuffix)
	if err != nil {
		return err
	}
	data := slices.Clone(scales.Data) // a page that is gone is a fault here, and a bad address in a write
	if err := p.r.out.WriteTensor(p.e.Name+packed.ScaleSuffix, data); err != nil {
		return err
	}
	if p.t.entry.CodesSHA != p.e.CodesSHA {
		return damaged(p.e.Name + packed.PackedSuffix)
	}
	return p.r.same(p.e.Name+packed.ScaleSuffix, p.e.ScaleSHA)
}

// unpacker reads codes back from the packed bytes of an entry.
type unpacker struct {
	entry    *packed.Entry
	layout   pack.Layout
	alphabet pack.Alphabet
	panel    *panels // nil: all rows at once
	bytes    []byte
}

func newUnpacker(v packed.View, e *packed.Entry) (*unpacker, error) {
	u := &unpacker{entry: e}
	var err error
	if u.bytes, err = packed.PackedBytes(v, e); err != nil {
		return nil, err
	}
	if u.layout, err = pack.Open(e.Layout); err != nil {
		return nil, err
	}
	if u.alphabet, err = pack.FindAlphabet(e.Layout.Alphabet); err != nil {
		return nil, err
	}
	u.panel, err = panelsOf(u.layout, e.MatrixShape())
	return u, err
}

// rows unpacks the rows from row from on, which are whole panels.
func (u *unpacker) rows(codes []int8, from int) error {
	k := u.entry.Shape[1]
	part := &pack.Matrix{Shape: pack.Shape{M: len(codes) / k, K: k}, Alphabet: u.alphabet, Codes: codes}
	bytes := u.bytes
	if u.panel != nil {
		begin, end := u.panel.span(from, from+part.M)
		bytes = bytes[begin:end]
	}
	if err := u.layout.Unpack(part, bytes); err != nil {
		return fmt.Errorf("tensor %q, rows from %d on: %w", u.entry.Name, from, err)
	}
	return nil
}

// copyAll copies everything that has no layout, and the digests of the sources.
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
	return fmt.Errorf("%w: tensor %q does not match its digest in the manifest: the file is damaged", pack.ErrCorrupt, name)
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
