package calibrate_test

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// TestExperts: measured forms of experts have the divergence of files with these forms, whose activations have 16 bits.
// Experts are no group of what they multiply; threads change nothing.
func TestExperts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "moe")
	tinymodel.Miniature(t, "qwen1.5-moe-a2.7b", dir)
	f, d := tinymodel.Open(t, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"}))
	probes := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}
	exact := predictions(t, f, probes, nil)
	block := d.Blocks[0]
	down := block.Experts.Down
	x := calibrate.Experts{Name: down.Weight}
	for e := range block.Experts.Count {
		x.Parts = append(x.Parts, down.Of(e))
	}
	forms := []calibrate.Form{{Measured: true}, {}, {Measured: true}}
	var want []float64
	for i, r := range []packed.Rule{{Quant: "int3", Scale: "group:32", Layout: "vnni4p"}, {},
		{Quant: "int4", Scale: "group:32", Layout: "vnni4i"}} {
		rule := r
		if rule.Quant == "" {
			rule.Quant = "int3"
		}
		job := quantize.Job{Rule: rule.Quant, DType: quantize.BF16, Kind: quantize.PerGroup, Group: 32}
		forms[i].Jobs = map[string]quantize.Job{}
		job.Shape = pack.Shape{M: block.Experts.Count * down.Out, K: down.In}
		forms[i].Jobs[down.Weight] = job
		job.Shape = pack.Shape{M: block.O.Out, K: block.O.In}
		forms[i].Jobs[block.O.Weight] = job
		if r.Quant == "" {
			want = append(want, want[0])
			continue
		}
		r.Match = down.Weight
		file, _ := tinymodel.Open(t, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none",
			Activation: "token16", AllowLossy: true, Rules: []packed.Rule{r}}))
		want = append(want, meanDivergence(exact, predictions(t, file, probes, nil)))
	}
	o := calibrate.Sensing{Probes: probes, Windows: longWindows(2, 70), Experts: []calibrate.Experts{x}}
	costs := sensitivities(t, f, forms, o, 1)
	if more := sensitivities(t, f, forms, o, 3); !reflect.DeepEqual(costs, more) {
		t.Errorf("3 threads give %v, 1 %v", more, costs)
	}
	groups := costs.Groups
	if len(groups) != 2 || groups[0].Names[0] != block.O.Weight || groups[1].Names[0] != down.Weight {
		t.Fatalf("groups %+v", groups)
	}
	for i, w := range want {
		if got := groups[1].Divergences[i]; math.Abs(got/w-1) > 0.02 {
			t.Errorf("form %d costs %g, want %g", i, got, w)
		}
	}
}
