package convert

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// decoder reads the codes of whole tensors, one after another.
type decoder struct {
	view    packed.View
	threads int
	memory  *offheap.Buffer // for the codes of one tensor
}

// codes unpacks a tensor into memory, matrix after matrix, row by row. The codes must match their digest.
func (d *decoder) codes(ctx context.Context, e *packed.Entry) (*pack.Matrix, error) {
	from, err := newUnpacker(d.view, e)
	if err != nil {
		return nil, err
	}
	k, n := e.MatrixShape().K, int(e.Weights())
	if d.memory == nil || len(d.memory.Bytes) < n {
		d.memory.Free()
		if d.memory, err = offheap.New(n); err != nil {
			return nil, err
		}
	}
	m := &pack.Matrix{Shape: pack.Shape{M: e.Rows(), K: k}, Alphabet: from.alphabet,
		Codes: packed.BytesAsCodes(d.memory.Bytes[:n])}
	b := pipeline.NewBlocks(e.MatrixShape(), e.Experts(), from.panel.RowsOf())
	if from.panel == nil {
		b.Rows = m.M
	}
	err = parallel.Each(ctx, d.threads, b.Count(), func(_, i int) error {
		first, end := b.At(i)
		return from.rows(m.Codes[first*k:end*k], first)
	})
	if err != nil {
		return nil, err
	}
	if packed.CodesDigest(m) != e.CodesSHA {
		return nil, fmt.Errorf("%w: tensor %q: its codes do not match codes_sha256: the file is damaged (F12)",
			pack.ErrCorrupt, e.Name+packed.PackedSuffix)
	}
	return m, nil
}

// weights reads the codes of a tensor and what is stored with them; all must match their digests.
func (u *unpack) weights(ctx context.Context, e *packed.Entry) (*pack.Matrix, *units, error) {
	m, err := u.decoder.codes(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range e.Beside() {
		t, err := u.in.Tensor(e.Name + b.Suffix)
		if err != nil {
			return nil, nil, err
		}
		if sum := sha256.Sum256(t.Data); hex.EncodeToString(sum[:]) != *b.SHA256 {
			return nil, nil, damaged(t.Name)
		}
	}
	own, err := newUnits(u.in, e)
	return m, own, err
}

// writeFloats writes (code − zero point) × scale, plus the minimum where there is one, for every weight, in the
// original column order.
func (u *unpack) writeFloats(ctx context.Context, e *packed.Entry, d safetensors.DType, to io.Writer) error {
	m, own, err := u.weights(ctx, e)
	if err != nil {
		return err
	}
	if u.masterWeights && e.Scale.Kind == packed.ScaleTensor && e.Quantizer == "absmean" {
		own.scales = []float32{masterScale(m, own.scales[0])}
	}
	row, buf := make([]float64, m.K), make([]byte, 0, m.K*int(d.Size()))
	for i := range m.M {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		own.row(row, i, m.Codes[i*m.K:(i+1)*m.K])
		buf = appendFloats(buf[:0], row, d)
		if k := pipeline.NotFinite(d, buf); k >= 0 {
			return fmt.Errorf("%w: tensor %q: the weight in row %d, column %d is too large for %s", pack.ErrUnsupported,
				e.Name, i, k, d)
		}
		if _, err := to.Write(buf); err != nil {
			return err
		}
		stored, rows := int64(e.StoredBytes()), int64(m.M)
		u.count.add(e.Name, stored*int64(i+1)/rows-stored*int64(i)/rows)
	}
	return nil
}

// units holds what weights share: scales, zero points, minima and the order of columns.
type units struct {
	rows   int // of a matrix
	kind   packed.ScaleKind
	group  int // columns of a unit
	perRow int
	scales []float32
	zeros  []int8    // nil = none
	minima []float32 // nil = none
	orders [][]int32
}

func newUnits(v packed.View, e *packed.Entry) (u *units, err error) {
	s := e.MatrixShape()
	u = &units{rows: s.M, kind: e.Scale.Kind, group: s.K, perRow: e.Groups(), orders: make([][]int32, e.Experts())}
	if e.Scale.Kind == packed.ScaleGroup {
		u.group = e.Scale.Group
	}
	if u.scales, err = packed.Scales(v, e); err != nil {
		return nil, err
	}
	if u.zeros, err = packed.Zeros(v, e); err != nil {
		return nil, err
	}
	if u.minima, err = packed.Minima(v, e); err != nil {
		return nil, err
	}
	for i := range u.orders {
		if u.orders[i], err = packed.Order(v, e, i); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// row sets dst to the weights of row i, counted over all matrices: exactly, or with minima as NUMERICS N39 rounds them.
func (u *units) row(dst []float64, i int, codes []int8) {
	matrix, first := i/u.rows, i*u.perRow
	if u.kind == packed.ScaleTensor {
		first = matrix
	}
	order := u.orders[matrix]
	for from := 0; from < len(codes); from += u.group {
		unit, zero := first+from/u.group, 0
		if u.zeros != nil {
			zero = int(u.zeros[unit])
		}
		scale := float64(u.scales[unit])
		for k, c := range codes[from:min(from+u.group, len(codes))] {
			at := from + k
			if order != nil {
				at = int(order[at])
			}
			if dst[at] = float64(int(c)-zero) * scale; u.minima != nil {
				dst[at] = float64(float32(dst[at]) + u.minima[unit])
			}
		}
	}
}

// masterScale is the magnitude c of weights 0 and ±c whose mean magnitude is the scale.
func masterScale(m *pack.Matrix, scale float32) float32 {
	used := 0
	for _, c := range m.Codes {
		if c != 0 {
			used++
		}
	}
	return float32(float64(scale) * float64(len(m.Codes)) / float64(max(used, 1)))
}

// appendFloats appends weights, each rounded once.
func appendFloats(dst []byte, row []float64, d safetensors.DType) []byte {
	for _, w := range row {
		if d == safetensors.BF16 {
			dst = binary.LittleEndian.AppendUint16(dst, float16.NarrowBrain(w))
		} else {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(w)))
		}
	}
	return dst
}

// planCodes plans packed U8 codes with a multiplying weight_scale: BF16, as published, where that is exact.
func (u *unpack) planCodes(e *packed.Entry) error {
	module, ok := strings.CutSuffix(e.Name, ".weight")
	if e.Layout.Alphabet != pack.Ternary.Name || e.Scale.Kind != packed.ScaleTensor || e.Zero || e.Order ||
		e.Experts() > 1 || !ok {
		return fmt.Errorf("%w: form %s holds ternary codes with one scale; these are %s with a scale per %s. Use form "+
			"%s or %s",
			pack.ErrUnsupported, u.form, e.Layout.Alphabet, e.Scale.Kind, FormBF16, FormF32)
	}
	if _, err := u.in.Tensor(module + ".bias"); err == nil {
		return fmt.Errorf("%w: tensor %q has a bias, which transformers would multiply by weight_scale in form %s; "+
			"use form %s or %s",
			pack.ErrUnsupported, e.Name, u.form, FormBF16, FormF32)
	}
	scales, err := packed.Scales(u.in, e)
	if err != nil {
		return err
	}
	if scales[0] == 0 { // all codes are zero; a weight_scale is positive
		scales[0] = 1
	}
	dtype := safetensors.F32
	if math.Float32bits(scales[0])&0xffff == 0 {
		dtype = safetensors.BF16
	}
	u.add(module+".weight_scale", dtype, []int{1}, func(_ context.Context, to io.Writer) error {
		_, err := to.Write(appendFloats(nil, []float64{float64(scales[0])}, dtype))
		return err
	})
	u.add(e.Name, safetensors.U8, []int{(e.Shape[0] + 3) / 4, e.Shape[1]},
		func(ctx context.Context, to io.Writer) error {
			return u.writeCodes(ctx, e, to)
		})
	return nil
}

func (u *unpack) writeCodes(ctx context.Context, e *packed.Entry, to io.Writer) error {
	m, _, err := u.weights(ctx, e)
	if err != nil {
		return err
	}
	l, err := pack.Open(pack.Spec{Name: "hf-u8"})
	if err != nil {
		return err
	}
	size, err := l.PackedSize(m.Shape)
	if err != nil {
		return err
	}
	out := make([]byte, size)
	if err := l.Pack(out, m); err != nil {
		return err
	}
	u.count.add(e.Name, int64(e.StoredBytes()))
	_, err = to.Write(out)
	return err
}
