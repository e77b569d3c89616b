package quantize

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestTernaryValues: one scale where the rows agree, else one per row; rows of zeros agree with everything.
func TestTernaryValues(t *testing.T) {
	s := pack.Shape{M: 3, K: 4}
	same := []float32{0.5, 0, -0.5, 0, 0, 0, 0, 0, -0.5, -0.5, 0.5, 0}
	rows := []float32{0.5, 0, -0.5, 0, 0, 0, 0, 0, -0.25, -0.25, 0.25, 0}
	want := []int8{1, 0, -1, 0, 0, 0, 0, 0, -1, -1, 1, 0}
	for _, d := range dtypes {
		for _, c := range []struct {
			kind   string
			w      []float32
			is     string
			scales []float32
		}{
			{"", same, PerTensor, []float32{0.5}},
			{PerTensor, same, PerTensor, []float32{0.5}},
			{PerRow, same, PerRow, []float32{0.5, 0, 0.5}},
			{"", rows, PerRow, []float32{0.5, 0, 0.25}},
			{PerRow, rows, PerRow, []float32{0.5, 0, 0.25}},
		} {
			q, codes := run(t, Job{Rule: "ternary-values", DType: d, Shape: s, Kind: c.kind, Stats: true}, d.encode(c.w))
			if kind, _ := q.Kind(); kind != c.is || !slices.Equal(q.Scales(), c.scales) || !slices.Equal(codes, want) {
				t.Errorf("%s, kind %q: %s %v, codes %v; want %s %v", d, c.kind, kind, q.Scales(), codes, c.is, c.scales)
			}
			if e := q.Stats().RelError; e != 0 {
				t.Errorf("relative error %v of weights that are exact", e)
			}
		}
		_, _, err := try(Job{Rule: "ternary-values", DType: d, Shape: s, Kind: PerTensor}, d.encode(rows))
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("different rows with one scale: %v", err)
		}
		_, _, err = try(Job{Rule: "ternary-values", DType: d, Shape: pack.Shape{M: 1, K: 3}}, d.encode([]float32{1, 0, 2}))
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("two magnitudes: %v", err)
		}
	}
}

// TestFourLevels: levels ±a and ±3a that were rounded to bf16, as exports of ParetoQ models hold them.
func TestFourLevels(t *testing.T) {
	s := pack.Shape{M: 2, K: 4}
	alpha := [2]float32{0.0371, 1.75}
	var w []float32
	for _, a := range alpha {
		w = append(w, a/4, -3*a/4, 3*a/4, -a/4)
	}
	src := BF16.encode(w)
	rounded := make([]float32, len(w))
	BF16.Widen(rounded, src)
	q, codes := run(t, Job{Rule: "int2-values", DType: BF16, Shape: s, Stats: true}, src)
	if !slices.Equal(codes, []int8{1, -3, 3, -1, 1, -3, 3, -1}) || !slices.Equal(q.Scales(), []float32{rounded[0], rounded[4]}) {
		t.Errorf("%v × %v", codes, q.Scales())
	}
	if e := q.Stats().RelError; e == 0 || e > 0x1p-8 {
		t.Errorf("relative error %v, want the rounding of bf16", e)
	}
	for name, c := range map[string][]float32{
		"zero":         {1, 0, 3, -1},
		"third level":  {1, 2, 3, 1},
		"wrong ratio":  {1, 2, -2, -1},
		"almost three": {1, 3.03, -1, 3.03},
	} {
		if _, _, err := try(Job{Rule: "int2-values", DType: F32, Shape: pack.Shape{M: 1, K: 4}}, f32(c...)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBitllama reads a model that exists in two forms: packed codes, and the same weights as floats.
func TestBitllama(t *testing.T) {
	floats, names := readModel(t, shared.Path(t, "data/models/bitllama2-3m/fake-f32/model.safetensors"))
	packed, _ := readModel(t, shared.Path(t, "data/models/bitllama2-3m/packed-auto/model.safetensors"))
	compared := 0
	for _, name := range names {
		kind, _, data := packed(name)
		if kind != "U8" {
			continue
		}
		dtype, shape, src := floats(name)
		s := pack.Shape{M: shape[0], K: shape[1]}
		want := make([]int8, s.M*s.K)
		if err := UnpackU8(want, s, data, 0, s.M); err != nil {
			t.Fatal(err)
		}
		q, got := run(t, Job{Rule: "ternary-values", DType: DType(dtype), Shape: s}, src)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the codes differ", name)
		}
		if kind, _ := q.Kind(); kind != PerTensor {
			t.Errorf("%s: one scale per %s", name, kind)
		}
		compared += len(got)
	}
	if compared != 3145728 {
		t.Errorf("%d weights were compared, want 3145728", compared)
	}
}
