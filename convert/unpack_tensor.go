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
	view   packed.View
	jobs   int
	memory *offheap.Buffer // for the codes of one tensor
}

// codes unpacks a tensor into the memory. The codes must match their digest.
func (d *decoder) codes(ctx context.Context, e *packed.Entry) (*pack.Matrix, error) {
	from, err := newUnpacker(d.view, e)
	if err != nil {
		return nil, err
	}
	s := e.MatrixShape()
	if d.memory == nil || len(d.memory.Bytes) < s.M*s.K {
		d.memory.Free()
		if d.memory, err = offheap.New(s.M * s.K); err != nil {
			return nil, err
		}
	}
	m := &pack.Matrix{Shape: s, Alphabet: from.alphabet, Codes: packed.BytesAsCodes(d.memory.Bytes[:s.M*s.K])}
	b := pipeline.NewBlocks(s, from.panel.RowsOf())
	if from.panel == nil {
		b.Rows = s.M
	}
	err = parallel.Each(ctx, d.jobs, b.Count(), func(_, i int) error {
		first, end := b.At(i)
		return from.rows(m.Codes[first*s.K:end*s.K], first)
	})
	if err != nil {
		return nil, err
	}
	if packed.CodesDigest(m) != e.CodesSHA {
		return nil, fmt.Errorf("%w: tensor %q: its codes do not match codes_sha256: the file is damaged (F12)", pack.ErrCorrupt, e.Name+packed.PackedSuffix)
	}
	return m, nil
}

// weights are the codes and scales of a tensor, both of which must match their digests.
func (u *unpack) weights(ctx context.Context, e *packed.Entry) (*pack.Matrix, []float32, error) {
	m, err := u.decoder.codes(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	t, err := u.in.Tensor(e.Name + packed.ScaleSuffix)
	if err != nil {
		return nil, nil, err
	}
	if sum := sha256.Sum256(t.Data); hex.EncodeToString(sum[:]) != e.ScaleSHA {
		return nil, nil, damaged(t.Name)
	}
	scales, err := packed.Scales(u.in, e)
	return m, scales, err
}

// writeFloats writes code × scale for every weight.
func (u *unpack) writeFloats(ctx context.Context, e *packed.Entry, d safetensors.DType, to io.Writer) error {
	m, scales, err := u.weights(ctx, e)
	if err != nil {
		return err
	}
	if u.masterWeights && e.Scale.Kind == packed.ScaleTensor && e.Quantizer == "absmean" {
		scales = []float32{masterScale(m, scales[0])}
	}
	perRow := len(scales) / m.M // 0: one scale for all
	buf := make([]byte, 0, m.K*int(d.Size()))
	for row := range m.M {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		own := scales
		if e.Scale.Kind != packed.ScaleTensor {
			own = scales[row*perRow : (row+1)*perRow]
		}
		buf = appendRow(buf[:0], m.Codes[row*m.K:(row+1)*m.K], own, e.Scale.Group, d)
		if i := pipeline.NotFinite(d, buf); i >= 0 {
			return fmt.Errorf("%w: tensor %q: the weight in row %d, column %d is too large for %s", pack.ErrUnsupported, e.Name, row, i, d)
		}
		if _, err := to.Write(buf); err != nil {
			return err
		}
		stored, rows := int64(e.StoredBytes()), int64(m.M)
		u.count.add(e.Name, stored*int64(row+1)/rows-stored*int64(row)/rows)
	}
	return nil
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

// appendRow appends the weights of a row. Group is the number of columns per scale, 0 = all.
func appendRow(dst []byte, codes []int8, scales []float32, group int, d safetensors.DType) []byte {
	if group == 0 {
		group = len(codes)
	}
	for k, c := range codes {
		w := float64(c) * float64(scales[k/group]) // exact
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
	if e.Layout.Alphabet != pack.Ternary.Name || e.Scale.Kind != packed.ScaleTensor || !ok {
		return fmt.Errorf("%w: form %s holds ternary codes with one scale; these are %s with a scale per %s. Use form %s or %s",
			pack.ErrUnsupported, u.form, e.Layout.Alphabet, e.Scale.Kind, FormBF16, FormF32)
	}
	if _, err := u.in.Tensor(module + ".bias"); err == nil {
		return fmt.Errorf("%w: tensor %q has a bias, which transformers would multiply by weight_scale in form %s; use form %s or %s",
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
		_, err := to.Write(appendRow(nil, []int8{1}, scales, 0, dtype))
		return err
	})
	u.add(e.Name, safetensors.U8, []int{(e.Shape[0] + 3) / 4, e.Shape[1]}, func(ctx context.Context, to io.Writer) error {
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
