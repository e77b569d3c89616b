package quantized_test

import (
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// TestSmoothed: a weight is code · scale, rounded to the type of the weights, times the number of its column. The
// scale of W8A8_SQ_PER_CHANNEL is rounded first, that of W4A16_AWQ is not.
func TestSmoothed(t *testing.T) {
	four := strings.Replace(strings.Replace(moSmoothConfig, "W8A8_SQ_PER_CHANNEL", "W4A16_AWQ", 1), `"}}`,
		`","group_size":8}}`, 1)
	for _, config := range []string{moSmoothConfig, four} {
		different := 0
		for i := range 64 {
			scale, by := 1+float32(i)/97, 1+float32(i%7)/128
			f := files{}
			f.add("x.pre_quant_scale", safetensors.F32, floats(16, by, 0.0078125), 16)
			want := func(code float32, k int) float32 {
				return round16(round16(code*scale) * (by + 0.0078125*float32(k)))
			}
			rows := map[int]float32{0: 7, 3: -8}
			if config == four {
				stored := make([]byte, 64)
				stored[2], stored[16+2] = 7, 8<<4
				f.add("x.weight", safetensors.U8, stored, 4, 16)
				f.add("x.weight_scale", safetensors.F32, floats(16, scale, 0), 8, 2)
			} else {
				stored := make([]byte, 128)
				rows[0], rows[3] = 127, -128
				stored[2], stored[3*16+2] = 127, 128
				f.add("x.weight", safetensors.I8, stored, 8, 16)
				f.add("x.weight_scale", safetensors.F32, floats(8, scale, 0), 8)
				if round16(scale*127) != round16(round16(scale)*127) {
					different++
				}
				scale = round16(scale)
			}
			b, err := f.values(config)
			if err != nil {
				t.Fatal(err)
			}
			for row, code := range rows {
				if got, want := bfloats(b)[row*16+2], want(code, 2); got != want {
					t.Fatalf("%s: row %d is %v, want %v", config, row, got, want)
				}
			}
			if once := round16(rows[0] * scale * (by + 0.015625)); once != want(rows[0], 2) {
				different++
			}
		}
		if different < 2 {
			t.Errorf("%s: no weight shows the roundings", config)
		}
	}
}

// TestSmoothedLayer: a matrix whose columns are multiplied does not stay codes, and one without numbers does.
func TestSmoothedLayer(t *testing.T) {
	f := sound(moSmoothConfig)
	if m, err := f.open(moSmoothConfig, "x"); m != nil || err != nil {
		t.Error(m, err)
	}
	x := f["x.weight_scale"]
	copy(x.data[5*4:], floats(1, float32(math.NaN()), 0))
	s, err := quantized.Parse([]byte(moSmoothConfig), f)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Values([]string{"x.weight"}, f.lookup, f.read)
	if err != nil {
		t.Fatal(err)
	}
	if err := found["x.weight"].ReadAt(make([]byte, 64), 4*32, f.read); !wellSaid(err, "row 5: scale of group 0") {
		t.Error(err)
	}
	f = sound(moSmoothConfig)
	delete(f, "x.pre_quant_scale")
	if m, err := f.open(moSmoothConfig, "x"); m == nil || err != nil {
		t.Error(m, err)
	}
}
