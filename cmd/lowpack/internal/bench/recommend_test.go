package bench

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

func recommendOptions() RecommendOptions {
	head := convert.Matrices{Shape: pack.Shape{M: 300, K: 320}, Count: 1}
	codes := head
	codes.Alphabet = "int8"
	return RecommendOptions{
		Meter: quick(),
		Body: []convert.Matrices{{Shape: pack.Shape{M: 96, K: 320}, Alphabet: "ternary", Count: 3},
			{Shape: pack.Shape{M: mostRows + 64, K: 64}, Alphabet: "ternary", Count: 1}},
		Heads: []HeadForm{{Name: "bf16", DType: tensor.BF16, Matrices: head},
			{Name: "screen", Layout: "vnni4", Vectors: 2, Matrices: codes}},
		Tokens: []int{1, 5}, Threads: 2,
	}
}

// TestRecommend: every layout with a kernel has figures, bytes count all matrices, and other layouts state why they
// have none.
func TestRecommend(t *testing.T) {
	r, err := Recommend(context.Background(), recommendOptions())
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]RecommendRow{}
	for _, row := range append(r.Layouts, r.Heads...) {
		if row.Refused != "" {
			continue
		}
		measured[row.Name] = row
		if len(row.Seconds) != 2 || row.Seconds[0].Median <= 0 || row.Seconds[1].Median <= 0 || len(row.Kernels) == 0 {
			t.Errorf("%+v", row)
		}
	}
	if len(r.Layouts) != len(packedLayouts()) {
		t.Errorf("%d layouts of %d", len(r.Layouts), len(packedLayouts()))
	}
	if _, ok := measured["hf-u8"]; ok {
		t.Error("hf-u8 has no kernel of its own, and was measured")
	}
	want := int64(3*96*320/4 + (mostRows+64)*64/4)
	if got := measured["vnni4i"].Bytes; got != want {
		t.Errorf("vnni4i: %d bytes, %d as 2 bits per weight", got, want)
	}
	if got := measured["bf16"].Bytes; got != 2*300*320 {
		t.Errorf("a head in floats: %d bytes", got)
	}
	if got := measured["screen"].Bytes; got < 300*320 || got > 320*320 {
		t.Errorf("a screen: %d bytes", got)
	}
}

func TestRecommendRefused(t *testing.T) {
	o := recommendOptions()
	o.Body, o.Heads = nil, nil
	if _, err := Recommend(context.Background(), o); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("nothing to choose for: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Recommend(ctx, recommendOptions()); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
}

func TestFastest(t *testing.T) {
	row := func(name string, bytes int64, seconds float64) RecommendRow {
		return RecommendRow{Name: name, Bytes: bytes, Seconds: []Quantity{{Median: seconds}}}
	}
	rows := []RecommendRow{{Name: "refused", Refused: "why"}, row("slow", 1, 3), row("fast", 10, 1),
		row("as fast, smaller", 9, 1.05), row("smallest", 8, 1.2)}
	for spread, want := range map[float64]string{0: "fast", 0.1: "as fast, smaller", 0.3: "smallest"} {
		if got := Fastest(rows, 0, spread); got == nil || got.Name != want {
			t.Errorf("within %v: %+v, not %s", spread, got, want)
		}
	}
	if got := Fastest(rows[:1], 0, 0); got != nil {
		t.Errorf("of refused ones: %+v", got)
	}
}

func TestAddQuantities(t *testing.T) {
	q := Quantity{Median: 1, Spread: 0.1}
	q.add(Quantity{Median: 2, Spread: 0.4}, 2)
	if q.Median != 5 || math.Abs(q.Spread-(0.1+1.6)/5) > 1e-12 {
		t.Errorf("%+v", q)
	}
}
