package convert

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// packAll makes codes and packed bytes of one tensor after another, so that memory holds the codes and the packed bytes of
// one tensor, whatever the number of goroutines; these work on its rows.
func (r *run) packAll(ctx context.Context) error {
	most, bytes := 0, 0
	for _, s := range r.steps {
		if s.entry != nil {
			most, bytes = max(most, s.entry.Shape[0]*s.entry.Shape[1]), max(bytes, s.entry.Bytes)
		}
	}
	codes, out := make([]int8, most), make([]byte, bytes)
	for _, s := range r.steps {
		if s.entry == nil {
			continue
		}
		t := newTensorPacker(r, s, codes, out)
		if err := t.pack(ctx); err != nil {
			return err
		}
		s.probed = nil
	}
	return nil
}

// tensorPacker carries out the step of one quantized tensor.
type tensorPacker struct {
	*run
	step   *step
	matrix *pack.Matrix
	bytes  []byte
	panel  pack.Paneled // nil: the layout packs the whole matrix at once
	blocks blocks
	stored *packed.Stream // of the packed bytes
	hash   hash.Hash      // of the codes
}

func newTensorPacker(r *run, s *step, codes []int8, out []byte) *tensorPacker {
	shape := s.entry.MatrixShape()
	a, _ := pack.FindAlphabet(s.entry.Layout.Alphabet)
	t := &tensorPacker{
		run: r, step: s,
		matrix: &pack.Matrix{Shape: shape, Alphabet: a, Codes: codes[:shape.M*shape.K]},
		bytes:  out[:s.entry.Bytes],
		hash:   packed.NewCodesHash(a.Name, shape),
	}
	rows := 1
	if p, ok := s.layout.(pack.Paneled); ok {
		t.panel, rows = p, p.PanelRows()
	}
	t.blocks = newBlocks(shape, rows)
	return t
}

// pack makes the tensor and its scales.
func (t *tensorPacker) pack(ctx context.Context) (err error) {
	name := t.step.entry.Name
	if t.stored, err = t.w.Stream(name + packed.PackedSuffix); err != nil {
		return err
	}
	scales := []float32{t.step.scale}
	if t.step.scale != 0 {
		err = t.fromCodes(ctx)
	} else {
		scales, err = t.fromFloats(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.stored.Close(); err != nil {
		return err
	}
	e, _ := t.w.Manifest().Entry(name)
	e.CodesSHA = hex.EncodeToString(t.hash.Sum(nil))
	return t.w.WriteTensor(name+packed.ScaleSuffix, floatBytes(scales))
}

// fromFloats quantizes and packs; it returns the scales.
func (t *tensorPacker) fromFloats(ctx context.Context) ([]float32, error) {
	r := newReader(t.read, t.step.from, t.blocks, t.jobs)
	q := t.step.probed
	if q == nil {
		var err error
		if q, err = quantize.New(t.step.job); err != nil {
			return nil, inTensor(t.step.from, err)
		}
		if q.Passes() == 2 {
			if err := measure(ctx, q, r); err != nil {
				return nil, err
			}
		}
	}
	k := t.matrix.K
	err := t.finish(ctx, r.workers(), func(worker, i int) error {
		return r.block(worker, i, func(row int, data []byte) error {
			rows := len(data) / r.row
			return q.Quantize(t.matrix.Codes[row*k:(row+rows)*k], row, data)
		})
	})
	return q.Scales(), err
}

// finish packs block after block as soon as fill has made its codes, and behind that digests and writes in order.
func (t *tensorPacker) finish(ctx context.Context, jobs int, fill func(worker, i int) error) error {
	err := ordered(ctx, jobs, t.blocks.count(), func(worker, i int) error {
		if err := fill(worker, i); err != nil {
			return err
		}
		return t.packBlock(i)
	}, t.writeBlock)
	if err != nil || t.panel != nil {
		return err
	}
	if err := t.step.layout.Pack(t.bytes, t.matrix); err != nil {
		return inTensor(t.step.from, err)
	}
	_, err = t.stored.Write(t.bytes)
	return err
}

// packBlock packs the panels of block i.
func (t *tensorPacker) packBlock(i int) error {
	if t.panel == nil {
		return nil
	}
	from, to := t.blocks.at(i)
	part := &pack.Matrix{
		Shape: pack.Shape{M: to - from, K: t.matrix.K}, Alphabet: t.matrix.Alphabet,
		Codes: t.matrix.Codes[from*t.matrix.K : to*t.matrix.K],
	}
	if err := t.panel.Pack(t.bytesOf(from, to), part); err != nil {
		return inTensor(t.step.from, err)
	}
	return nil
}

// bytesOf returns the packed bytes of the panels that hold rows [from, to).
func (t *tensorPacker) bytesOf(from, to int) []byte {
	n := t.panel.PanelRows()
	panels := (t.matrix.M + n - 1) / n
	size := len(t.bytes) / panels
	return t.bytes[from/n*size : (to+n-1)/n*size]
}

// writeBlock digests the codes of block i and writes its packed bytes, if it has any of its own.
func (t *tensorPacker) writeBlock(i int) error {
	from, to := t.blocks.at(i)
	t.hash.Write(packed.CodeBytes(t.matrix.Codes[from*t.matrix.K : to*t.matrix.K]))
	t.add(t.step.entry.Name, t.step.row.BytesIn*int64(to-from)/int64(t.matrix.M))
	if t.panel == nil {
		return nil
	}
	_, err := t.stored.Write(t.bytesOf(from, to))
	return err
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
