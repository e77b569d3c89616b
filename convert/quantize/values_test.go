package quantize

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestTernaryValues: one scale if the rows agree, else one per row; rows of zeros agree with any scale.
func TestTernaryValues(t *testing.T) {
	s := pack.Shape{M: 3, K: 4}
	same := []float32{0.5, 0, -0.5, 0, 0, 0, 0, 0, -0.5, -0.5, 0.5, 0}
	rows := []float32{0.5, 0, -0.5, 0, 0, 0, 0, 0, -0.25, -0.25, 0.25, 0}
	want := []int8{1, 0, -1, 0, 0, 0, 0, 0, -1, -1, 1, 0}
	for _, d := range dtypes {
		for _, c := range []struct {
			kind   ScaleKind
			w      []float32
			is     ScaleKind
			scales []float32
		}{
			{"", same, PerTensor, []float32{0.5}},
			{PerTensor, same, PerTensor, []float32{0.5}},
			{PerRow, same, PerRow, []float32{0.5, 0, 0.5}},
			{"", rows, PerRow, []float32{0.5, 0, 0.25}},
			{PerRow, rows, PerRow, []float32{0.5, 0, 0.25}},
		} {
			q, codes := run(t, Job{Rule: "ternary-values", DType: d, Shape: s, Kind: c.kind, Stats: true},
				d.encode(c.w))
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
		_, _, err = try(Job{Rule: "ternary-values", DType: d, Shape: pack.Shape{M: 1, K: 3}},
			d.encode([]float32{1, 0, 2}))
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("two magnitudes: %v", err)
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
		if err := unpackU8(want, s, data, 0, s.M); err != nil {
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
