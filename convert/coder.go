package convert

import (
	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// coder makes the codes of a matrix and provides the figures of a report afterwards.
type coder interface {
	pipeline.Decoder
	scales() []float32
	relError() *float64 // ‖W − Ŵ‖/‖W‖; nil: use the plan's value
}

// floatDecoder quantizes floats whose scales are known in advance or depend on single rows only.
type floatDecoder struct {
	q     *quantize.Quantizer
	stats bool
}

// newFloatDecoder carries out a job.
func newFloatDecoder(job quantize.Job) (coder, error) {
	q, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	f := floatDecoder{q, job.Stats}
	if q.Passes() == 2 {
		return measuredDecoder{f}, nil
	}
	return f, nil
}

func (f floatDecoder) Decode(codes []int8, row int, stored []byte) error {
	return f.q.Quantize(codes, row, stored)
}

func (f floatDecoder) Finish() ([]pipeline.Blob, error) {
	return scaleBlob(scaleMade(f.q), f.q.Scales())
}

// scaleMade returns the granularity and type of a quantizer's scales.
func scaleMade(q *quantize.Quantizer) packed.Scale {
	kind, group := q.Kind()
	return packed.Scale{
		Kind: packed.ScaleKind(kind), Group: group, DType: packed.ScaleType(q.ScaleType()), Signed: q.Rule().Signed,
	}
}

func (f floatDecoder) scales() []float32 { return f.q.Scales() }

func (f floatDecoder) relError() *float64 {
	if !f.stats {
		return nil
	}
	e := f.q.Stats().RelError
	return &e
}

// measuredDecoder is for rules whose scale depends on all rows.
type measuredDecoder struct{ floatDecoder }

func (m measuredDecoder) Measure(row int, stored []byte) error { return m.q.Measure(row, stored) }
func (m measuredDecoder) Fix() error                           { return m.q.Fix() }

var _ pipeline.Measurer = measuredDecoder{}

// u8Decoder imports the codes of a packed BitNet checkpoint.
type u8Decoder struct {
	shape pack.Shape
	scale float32
}

// u8Source returns the storage order of a packed BitNet tensor: row m is in stored row m mod R, R = ⌈M/4⌉; the last
// stored rows may hold codes of rows past M.
func u8Source(t checkpoint.Tensor, s pack.Shape) pipeline.Source {
	quarter := pipeline.Run{Rows: (s.M + 3) / 4}
	return pipeline.Source{
		Parts: []checkpoint.Tensor{t},
		Runs:  []pipeline.Run{quarter, quarter, quarter, quarter},
		Panel: pipeline.Panel{Rows: 1, Bytes: s.K, Lines: 1},
	}
}

func (u u8Decoder) Decode(codes []int8, row int, stored []byte) error {
	return quantize.UnpackU8(codes, u.shape, row, stored)
}

func (u u8Decoder) Finish() ([]pipeline.Blob, error) { return scaleBlob(u8Scale, u.scales()) }
func (u u8Decoder) scales() []float32                { return []float32{u.scale} }
func (u8Decoder) relError() *float64                 { return nil }

// u8Scale describes the scale of such a checkpoint.
var u8Scale = packed.Scale{Kind: packed.ScaleTensor, DType: packed.ScaleF32}

// scaleBlob is the tensor of scales.
func scaleBlob(how packed.Scale, scales []float32) ([]pipeline.Blob, error) {
	b := make([]byte, 0, 4*len(scales))
	for _, x := range scales {
		var err error
		if b, err = how.AppendScale(b, x); err != nil {
			return nil, err
		}
	}
	return []pipeline.Blob{{Suffix: packed.ScaleSuffix, Data: b}}, nil
}
