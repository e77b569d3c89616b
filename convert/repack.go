package convert

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/pack"
)

// RepackOptions of a change of layout.
type RepackOptions struct {
	Layout string
	Params map[string]int
	Jobs   int // goroutines; 0 = one per CPU
}

// Repack writes the packed file source to target with all tensors in another layout. Codes, scales, kept tensors and
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
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if r.out, err = packed.Create(atomicfile.OS, target, *contents); err != nil {
		return nil, err
	}
	defer r.out.Abort()
	if err := together(ctx, r.packAll, r.copyAll); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.out.Commit(); err != nil {
		return nil, err
	}
	m := in.Manifest()
	return &Summary{
		Tensors: len(m.Packed) + len(m.Plain), Quantized: len(m.Packed),
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
		golden, err := r.in.Section(packed.GoldenName)
		if err != nil {
			return nil, err
		}
		c.Golden = golden.Size()
		r.count.total += c.Golden
	}
	return c, nil
}

// packAll unpacks and packs one tensor after another.
func (r *repack) packAll(ctx context.Context) error {
	b, err := newBuffers(r.out.Manifest().Packed)
	if err != nil {
		return err
	}
	defer b.free()
	for i := range r.in.Manifest().Packed {
		if err := r.packOne(ctx, &r.in.Manifest().Packed[i], b); err != nil {
			return err
		}
	}
	return nil
}

func (r *repack) packOne(ctx context.Context, e *packed.Entry, b *buffers) error {
	t, err := newTensorPacker(r.out, e.Name, b, r.jobs, func(rows int) {
		r.count.add(e.Name, int64(e.StoredBytes())*int64(rows)/int64(e.Shape[0]))
	})
	if err != nil {
		return err
	}
	if err := unpackCodes(ctx, r.in, e, t.matrix, r.jobs); err != nil {
		return err
	}
	if err := t.finish(ctx, r.jobs, nil); err != nil {
		return err
	}
	scales, err := r.in.Tensor(e.Name + packed.ScaleSuffix)
	if err != nil {
		return err
	}
	if err := t.close(scales.Data); err != nil {
		return err
	}
	if t.entry.CodesSHA != e.CodesSHA {
		return damaged(e.Name + packed.PackedSuffix)
	}
	return r.same(e.Name+packed.ScaleSuffix, e.ScaleSHA)
}

// unpackCodes fills m from the packed bytes of an entry, panel by panel where the layout allows.
func unpackCodes(ctx context.Context, v packed.View, e *packed.Entry, m *pack.Matrix, jobs int) error {
	src, err := packed.PackedBytes(v, e)
	if err != nil {
		return err
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return err
	}
	p, err := panelsOf(l, m.Shape)
	if err != nil {
		return err
	}
	if p == nil {
		if err := l.Unpack(m, src); err != nil {
			return fmt.Errorf("tensor %q: %w", e.Name, err)
		}
		return nil
	}
	b := newBlocks(m.Shape, p.rows)
	return parallel(ctx, jobs, b.count(), func(_, i int) error {
		from, to := b.at(i)
		part := &pack.Matrix{Shape: pack.Shape{M: to - from, K: m.K}, Alphabet: m.Alphabet, Codes: m.Codes[from*m.K : to*m.K]}
		if err := l.Unpack(part, p.cut(src, from, to)); err != nil {
			return fmt.Errorf("tensor %q, rows from %d on: %w", e.Name, from, err)
		}
		return nil
	})
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
