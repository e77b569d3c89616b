package packed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// check checks a manifest against the rules that need nothing but the manifest: order, names, digests, sizes.
func (m *Manifest) check() error {
	if err := m.checkOrder(); err != nil {
		return err
	}
	if err := m.Activation.Check(); err != nil {
		return err
	}
	if m.Pooling != nil {
		if err := m.Pooling.Check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	if m.Pooling != nil && m.Scoring != nil {
		return fmt.Errorf("%w: manifest: both pooling and scoring; a model makes embeddings or scores (F27)",
			pack.ErrCorrupt)
	}
	if m.Scoring != nil {
		if err := m.Scoring.Check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	for i := range m.Packed {
		if err := m.Packed[i].check(); err != nil {
			return err
		}
	}
	for i := range m.Plain {
		if err := m.Plain[i].check(); err != nil {
			return err
		}
	}
	for _, s := range m.Sources {
		if err := checkDigest(s.Name, s.SHA256); err != nil {
			return err
		}
		if s.Size < 0 {
			return fmt.Errorf("%w: source %q has size %d (F11)", pack.ErrCorrupt, s.Name, s.Size)
		}
	}
	if m.Golden != "" {
		return checkDigest(GoldenName, m.Golden)
	}
	return nil
}

func (m *Manifest) checkOrder() error {
	ascending := func(what string, n int, name func(int) string) error {
		for i := 1; i < n; i++ {
			if cmp.Compare(name(i-1), name(i)) >= 0 {
				return fmt.Errorf("%w: manifest: %s %q does not come after %q (F11)", pack.ErrCorrupt, what,
					name(i), name(i-1))
			}
		}
		return nil
	}
	if err := ascending("packed tensor", len(m.Packed), func(i int) string { return m.Packed[i].Name }); err != nil {
		return err
	}
	return ascending("source", len(m.Sources), func(i int) string { return m.Sources[i].Name })
}

// checkForm checks shape and scales of an entry against the rules that sizes depend on (F9, F14).
func (e *Entry) checkForm() error {
	if n := len(e.Shape); n != 2 && n != 3 {
		return fmt.Errorf("%w: %q: shape %v; a matrix is [M, K], those of experts are [E, M, K] (F14)", pack.ErrCorrupt,
			e.Name, e.Shape)
	}
	if err := e.MatrixShape().Check(); err != nil {
		return fmt.Errorf("%q: %w (F14)", e.Name, err)
	}
	if n := e.Experts(); n < 1 || n > pack.MaxDim/e.MatrixShape().M {
		return fmt.Errorf("%w: %q: shape %v: the rows of all experts must lie in 1..%d (F14)", pack.ErrLimit,
			e.Name, e.Shape,
			pack.MaxDim)
	}
	if scaleTypes[e.Scale.DType] == "" {
		return fmt.Errorf("%w: %q: scales of type %q; there are F32, F16, BF16, E8M0, F16I8 and F16I8/8 (F9)",
			pack.ErrUnsupported, e.Name,
			e.Scale.DType)
	}
	if e.Scale.DType == ScaleE8M0 && (e.Layout.Alphabet != pack.E2M1.Name || e.Scale.Signed || e.Zero) {
		return fmt.Errorf("%w: %q: scales of type E8M0 belong to e2m1 codes, without sign and zero points (F9)",
			pack.ErrCorrupt, e.Name)
	}
	if e.Min && (e.Zero || e.Scale.Kind != ScaleGroup || e.Scale.DType == ScaleE8M0 ||
		e.Scale.DType == ScaleF16I8Eighths) {
		return fmt.Errorf("%w: %q: minima stand beside group-wise scales of type F32, F16, BF16 or F16I8, without "+
			"zero points (F25)", pack.ErrCorrupt, e.Name)
	}
	if err := e.checkFactors(); err != nil {
		return err
	}
	_, err := e.ScaleShape()
	return err
}

// check compares shape, layout, size and alphabet of an entry (F14).
func (e *Entry) check() error {
	if err := e.checkForm(); err != nil {
		return err
	}
	digests := []string{e.SHA256, e.CodesSHA}
	for _, b := range e.Beside() {
		digests = append(digests, *b.SHA256)
	}
	for _, d := range digests {
		if err := checkDigest(e.Name, d); err != nil {
			return err
		}
	}
	if e.Zero == (e.ZeroSHA == "") || e.Min == (e.MinSHA == "") || e.Order == (e.OrderSHA == "") {
		return fmt.Errorf("%w: manifest: %q: a digest of zero points, minima or an order that the entry "+
			"does not have (F11)",
			pack.ErrCorrupt, e.Name)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return fmt.Errorf("%q: %w (F14)", e.Name, err)
	}
	if s := l.Spec(); s.Name != e.Layout.Name || s.Version != e.Layout.Version || s.Alphabet != e.Layout.Alphabet ||
		!maps.Equal(s.Params, e.Layout.Params) {
		return fmt.Errorf("%w: %q: layout %v is incomplete; it should be %v (F14)", pack.ErrCorrupt, e.Name,
			e.Layout, s)
	}
	if _, ok := l.(pack.Paneled); e.Experts() > 1 && !ok {
		return fmt.Errorf("%w: %q: layout %s packs a matrix as a whole; %d experts need a layout in row panels, such "+
			"as vnni4i (F14)", pack.ErrUnsupported, e.Name, e.Layout.Name, e.Experts())
	}
	size, err := l.PackedSize(e.MatrixShape())
	if err != nil {
		return fmt.Errorf("%q: %w (F14)", e.Name, err)
	}
	if size != e.Bytes {
		return fmt.Errorf("%w: %q: %d bytes recorded, layout %s needs %d for %v (F14)", pack.ErrCorrupt,
			e.Name, e.Bytes,
			e.Layout.Name, size, e.MatrixShape())
	}
	return nil
}

// check checks the name, the form and the size of an embedded file, and the digest. These names are safe to use when
// unpacking such files.
func (p *Plain) check() error {
	if file, embedded := strings.CutPrefix(p.Name, FilePrefix); embedded {
		limit := modelfile.Limit(file)
		if !slices.Contains(modelfile.Names(), file) || p.DType != safetensors.U8 || len(p.Shape) != 1 {
			return fmt.Errorf("%w: tensor %q, %s %v: what is stored under %s are the bytes of %s (F7)",
				pack.ErrCorrupt, p.Name, p.DType, p.Shape, FilePrefix, strings.Join(modelfile.Names(), ", "))
		}
		if int64(p.Shape[0]) > limit {
			return fmt.Errorf("%w: tensor %q has %d bytes; at most %d are read of a %s (F7)", pack.ErrLimit, p.Name,
				p.Shape[0],
				limit, file)
		}
	}
	return checkDigest(p.Name, p.SHA256)
}

// checkDigest requires 64 lower-case hexadecimal digits.
func checkDigest(name, hex string) error {
	if len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: manifest: %q: %q is not a SHA-256 (F11)", pack.ErrCorrupt, name, hex)
	}
	return nil
}

// checkFrame compares the tensors of a file with the tensors that its manifest requires.
func checkFrame(stored, want []safetensors.TensorInfo) error {
	for i := range max(len(stored), len(want)) {
		switch {
		case i >= len(want):
			return fmt.Errorf("%w: tensor %q is not in the manifest (F6)", pack.ErrCorrupt, stored[i].Name)
		case i >= len(stored):
			return fmt.Errorf("%w: tensor %q is missing (F6)", pack.ErrCorrupt, want[i].Name)
		}
		s, w := &stored[i], &want[i]
		if s.Name != w.Name || s.DType != w.DType || !slices.Equal(s.Shape, w.Shape) {
			return fmt.Errorf("%w: tensor %d is %q, %s %v; the manifest asks for %q, %s %v (F6, F7, F14)",
				pack.ErrCorrupt, i, s.Name, s.DType, s.Shape, w.Name, w.DType, w.Shape)
		}
	}
	return nil
}
