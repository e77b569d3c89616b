package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/texts"
)

// MergeOptions configures Merge.
type MergeOptions struct {
	Progress Progress // nil = no progress

	fs atomicfile.FS // nil: the operating system's
}

// Merge joins all parts of a conversion (Options.Part) into the packed file that an undivided conversion writes, byte
// for byte. Golden outputs are computed here. All digests of the parts are checked on the way, including the digests of
// codes.
func Merge(ctx context.Context, parts []string, target string, o MergeOptions) (*Summary, error) {
	start := time.Now()
	for _, path := range parts {
		if err := apart(target, path); err != nil {
			return nil, err
		}
	}
	m, err := openParts(parts)
	if err != nil {
		return nil, err
	}
	defer m.close()
	c := m.files[0].Contents()
	if m.out, err = create(cmp.Or(o.fs, atomicfile.OS), target, c); err != nil {
		return nil, err
	}
	defer m.out.Abort()
	m.decoder = decoder{view: m.out}
	defer func() { m.decoder.memory.Free() }()
	m.count = newCounter(o.Progress, m.bytes())
	if err := m.copyAll(ctx); err != nil {
		return nil, err
	}
	copied := time.Now()
	if err := m.golden(ctx, o.Progress); err != nil {
		return nil, err
	}
	s := &Summary{
		Tensors: tensorsOf(&c.Manifest), Quantized: len(c.Manifest.Packed),
		BytesOut: m.out.Size(), Golden: time.Since(copied),
	}
	for _, f := range m.files {
		s.BytesIn += f.Size()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := m.out.Commit(); err != nil {
		return nil, err
	}
	s.Elapsed = time.Since(start)
	return s, nil
}

// merge is the state of one Merge.
type merge struct {
	paths   []string
	files   []*packed.PartFile
	out     *packed.Writer
	decoder decoder
	count   *counter
}

// openParts opens the parts and demands that all belong to one plan, each exactly once.
func openParts(paths []string) (*merge, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: no parts to merge", pack.ErrUnsupported)
	}
	m := &merge{paths: paths}
	if err := m.open(); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *merge) open() error {
	var first []byte
	seen := map[int]string{}
	for _, path := range m.paths {
		p, err := packed.OpenPart(path)
		if err != nil {
			return err
		}
		m.files = append(m.files, p)
		plan, err := p.Plan.Canonical()
		if err != nil {
			return err
		}
		if first == nil {
			first = plan
		}
		switch other, twice := seen[p.Index]; {
		case string(plan) != string(first) || p.Count != m.files[0].Count || p.Golden != m.files[0].Golden:
			return fmt.Errorf("%w: %s and %s are parts of different conversions", pack.ErrUnsupported, m.paths[0], path)
		case twice:
			return fmt.Errorf("%w: %s and %s are both part %d", pack.ErrUnsupported, other, path, p.Index)
		}
		seen[p.Index] = path
	}
	for i := 1; i <= m.files[0].Count; i++ {
		if seen[i] == "" {
			return fmt.Errorf("%w: part %d of %d is missing", pack.ErrUnsupported, i, m.files[0].Count)
		}
	}
	return nil
}

func (m *merge) close() {
	for _, f := range m.files {
		f.Close()
	}
}

func (m *merge) bytes() (n int64) {
	for _, f := range m.files {
		for _, t := range f.Tensors {
			if s, err := f.Section(t.Name); err == nil {
				n += s.Size()
			}
		}
	}
	return n
}

func (m *merge) copyAll(ctx context.Context) error {
	for i, f := range m.files {
		for _, t := range f.Tensors {
			if err := m.copy(ctx, f, t); err != nil {
				return filerr.Named(m.paths[i], err)
			}
		}
		for _, s := range f.Sources {
			sourceOf(m.out.Manifest(), s.Name).SHA256 = s.SHA256
		}
	}
	return nil
}

// copy copies a tensor and compares its digest.
func (m *merge) copy(ctx context.Context, f *packed.PartFile, t packed.PartTensor) error {
	from, err := f.Section(t.Name)
	if err != nil {
		return err
	}
	to, err := m.out.Stream(t.Name)
	if err != nil {
		return err
	}
	h := sha256.New()
	if err := m.count.copy(ctx, io.MultiWriter(to, h), from, t.Name); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != t.SHA256 {
		return damaged(t.Name)
	}
	return m.setCodes(ctx, t)
}

// setCodes notes the digest of a quantized tensor's codes after checking it against the codes.
func (m *merge) setCodes(ctx context.Context, t packed.PartTensor) error {
	name, ok := strings.CutSuffix(t.Name, packed.PackedSuffix)
	e, quantized := m.out.Manifest().Entry(name)
	if !ok || !quantized {
		return nil
	}
	e.CodesSHA = t.Codes
	_, err := m.decoder.codes(ctx, e)
	return err
}

// golden plans the golden outputs again, with the same result as in the conversion, and computes them.
func (m *merge) golden(ctx context.Context, progress Progress) error {
	manifest := m.out.Manifest()
	if manifest.Recipe.Golden == packed.GoldenNone {
		return nil
	}
	d, err := packed.Describe(m.out)
	if err != nil && !(errors.Is(err, pack.ErrUnsupported) && manifest.Family == "") {
		return err
	}
	var encoded []golden.Text
	if d != nil {
		if encoded, err = texts.From(m.out.Embedded); err != nil {
			return err
		}
	}
	plan, err := golden.Plan(manifest.Recipe.Golden, manifest, d, encoded)
	if err != nil {
		return err
	}
	return recordGolden(ctx, 0, m.out, d, plan, progress)
}
