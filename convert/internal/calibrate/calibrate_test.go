package calibrate_test

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestColumns: the first layer reads normed embedding rows, whose mean squares are computed here independently; all
// layers are present, and the number of threads changes no bit.
func TestColumns(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	windows := [][]int{{1, 5, 9, 200, 31}, {1, 7, 7}, {1, 400, 3, 12, 88, 90, 17}}
	var last, total int64
	got, err := calibrate.Columns(context.Background(), 1, f, windows,
		func(done, all int64) { last, total = done, all })
	if err != nil {
		t.Fatal(err)
	}
	if last != 15 || total != 15 {
		t.Errorf("%d of %d tokens", last, total)
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		for _, name := range []string{b.Q.Weight, b.K.Weight, b.V.Weight, b.O.Weight, b.Gate.Weight, b.Up.Weight,
			b.Down.Weight} {
			if len(got[name]) == 0 {
				t.Errorf("%s: nothing is known of what it reads", name)
			}
		}
	}
	if len(got[d.Head]) != 0 {
		t.Error("the output head is not calibrated")
	}
	more, err := calibrate.Columns(context.Background(), 3, f, windows, func(int64, int64) {})
	if err != nil || !reflect.DeepEqual(got, more) {
		t.Errorf("3 threads give something else than 1: %v", err)
	}
	want := make([]float64, d.Hidden)
	embed, norm := floats(t, f, d.Embed), floats(t, f, d.Blocks[0].AttnNorm.Weight)
	for _, w := range windows {
		for _, id := range w {
			row, square := embed[id*d.Hidden:][:d.Hidden], 0.0
			for _, x := range row {
				square += x * x
			}
			for k, x := range row {
				y := x / math.Sqrt(square/float64(d.Hidden)+float64(d.NormEps)) * norm[k]
				want[k] += y * y / 15
			}
		}
	}
	for k, x := range got[d.Blocks[0].Q.Weight] {
		if math.Abs(float64(x)-want[k]) > 1e-5*want[k] {
			t.Errorf("column %d: mean square %v; want %v", k, x, want[k])
		}
	}
}

// TestColumnsOfExperts: with experts, each mean is over the vectors that a weight reads. The shared expert and the
// router read the same vectors, and so do all routed experts together, each token equally often.
func TestColumnsOfExperts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "moe")
	tinymodel.Miniature(t, "qwen1.5-moe-a2.7b", dir)
	f, d := tinymodel.Open(t, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"}))
	got, err := calibrate.Columns(context.Background(), 2, f, [][]int{{1, 5, 9, 200, 31}, {7, 7, 3}},
		func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		router := got[b.Experts.Router]
		if len(router) != d.Hidden || !slices.Equal(router, got[b.Experts.SharedGate]) ||
			!slices.Equal(router, got[b.Gate.Weight]) {
			t.Errorf("block %d: router, gate and the shared expert read %v, %v and %v", i, router,
				got[b.Experts.SharedGate],
				got[b.Gate.Weight])
		}
		for _, l := range b.Linears() {
			if len(got[l.Weight]) != l.In {
				t.Errorf("%s: %d columns of %d", l.Weight, len(got[l.Weight]), l.In)
			}
		}
		for k, x := range got[b.Experts.Gate.Weight] {
			if math.Abs(float64(x-router[k])) > 1e-6*float64(router[k]) {
				t.Errorf("block %d, column %d: experts read %v, the router %v", i, k, x, router[k])
			}
		}
	}
}

// floats widens a tensor of BF16 or F32.
func floats(t *testing.T, v packed.View, name string) (list []float64) {
	t.Helper()
	s, err := v.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	size := map[safetensors.DType]int{"BF16": 2, "F32": 4}[s.DType]
	for b := s.Data; len(b) > 0; b = b[size:] {
		bits := uint32(b[size-1])<<24 | uint32(b[size-2])<<16
		if size == 4 {
			bits |= uint32(b[1])<<8 | uint32(b[0])
		}
		list = append(list, float64(math.Float32frombits(bits)))
	}
	return list
}
