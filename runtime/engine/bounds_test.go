package engine

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// TestScreenBounds checks the bounds of the candidate filter with rows and inputs that come as close to them as F21
// allows: weights 0.5 of a scale away from their codes, all in the direction of the input, and inputs that the two int8
// vectors represent as badly as possible. Each term of the bound is needed for one of them.
func TestScreenBounds(t *testing.T) {
	for name, x := range map[string]func(k int) float64{
		"constant":           func(k int) float64 { return 1 },
		"near half a step":   func(k int) float64 { return (float64(32000-k%50) + 0.499) / tensor.MaxCode16 },
		"large lower halves": func(k int) float64 { return float64(255*(120-k%5)+127) / tensor.MaxCode16 },
		"rounded one way":    func(k int) float64 { return 0.987654 },
		"rounded downwards":  func(k int) float64 { return 0.71 },
		"rounded upwards":    func(k int) float64 { return 0.9371 },
		"alternating": func(k int) float64 {
			return float64(1-2*(k%2)) * (float64(32000-k%50) - 0.499) / tensor.MaxCode16
		},
	} {
		for _, cols := range []int{64, 65536} {
			for _, code := range []int8{0, 127} {
				in := make([]float32, cols)
				for k := range in {
					in[k] = float32(x(k))
				}
				in[0] = 1 // the largest: steps of 1/32512
				bounded(t, name, in, code)
			}
		}
	}
}

// bounded compares the bounds of four rows with their logits: codes are ±code, and weights lie 0.5009 scales away from
// them, with the signs that make all errors add up, and with the opposite signs.
func bounded(t *testing.T, name string, x []float32, code int8) {
	t.Helper()
	const rows, scale = 4, float32(1.0 / 128)
	cols := len(x)
	e := &Engine{desc: &model.Description{Config: model.Config{Vocab: rows, Hidden: cols}}}
	c := pack.NewMatrix(pack.Shape{M: rows, K: cols}, pack.Int8)
	head := make([]byte, 0, 4*rows*cols)
	for m := range rows {
		for k, v := range x {
			sign, away := int8(1), float32(0.5009)
			if q := float64(v) * tensor.MaxCode16; m%2 == 0 && q < math.RoundToEven(q) {
				sign = -1 // along the residual of the activation
			}
			if (m < 2) != (v > 0) {
				away = -away
			}
			c.Codes[m*cols+k] = sign * code
			head = binary.LittleEndian.AppendUint32(head, math.Float32bits((float32(sign*code)+away)*scale))
		}
	}
	layout, packed := inVNNI4(t, c)
	codes, err := kernel.Bind(layout, c.Shape, packed, cols)
	if err != nil {
		t.Fatal(err)
	}
	defer codes.Close()
	w, err := tensor.NewMatrix(tensor.F32, rows, cols, head)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{codes: codes, scales: []float32{scale, scale, scale, scale}, x: kernel.NewActivations(2, cols)}
	e.weights.screen = s
	logits := make([]float32, 2*rows)
	k := &screenTask{screen: s, vocab: rows, n: 1, sums: asInt32(logits), bounds: logits}
	s.x.Reset(2)
	k.split[0] = s.split(0, x)
	s.x.Finish()
	k.Do(0, codes.Panels())
	y := make([]float32, rows)
	w.Mul(tensor.Vectors{Data: y}, tensor.Vectors{Data: x}, 1, tensor.Range{To: rows})
	for m := range y {
		if low, high := k.low(0)[m], k.high(0)[m]; !(low <= y[m] && y[m] <= high) {
			t.Errorf("%s, %d columns, code %d, row %d: %v is not within [%v, %v]", name, cols, code, m, y[m], low, high)
		}
	}
}

// inVNNI4 packs int8 codes.
func inVNNI4(t testing.TB, c *pack.Matrix) (pack.Layout, []byte) {
	t.Helper()
	layout, err := pack.Open(pack.Spec{Name: "vnni4", Alphabet: pack.Int8.Name})
	if err != nil {
		t.Fatal(err)
	}
	size, err := layout.PackedSize(c.Shape)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if err := layout.Pack(data, c); err != nil {
		t.Fatal(err)
	}
	return layout, data
}
