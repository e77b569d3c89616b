package calibrate_test

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestSensitivities: measured forms of a group have the divergence of a model with these rounded weights, computed
// token by token; the others that of the measured one before them, in proportion to the errors of every fourth row.
// Threads change nothing.
func TestSensitivities(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	windows := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}
	columns, err := calibrate.Columns(context.Background(), 1, f, windows, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	forms := []calibrate.Form{{Measured: true}, {}, {Measured: true}, {}, {}}
	for i, kind := range []quantize.Job{{Rule: "int3", Group: 64}, {Rule: "int3", Group: 32}, {Rule: "int4", Group: 64},
		{Rule: "int5", Group: 64}, {Rule: "int8"}} {
		forms[i].Jobs = map[string]quantize.Job{}
		for _, l := range d.Blocks[0].Linears() {
			s, err := f.Tensor(l.Weight)
			if err != nil {
				t.Fatal(err)
			}
			job := kind
			job.DType, job.Shape, job.Kind = quantize.DType(s.DType), pack.Shape{M: l.Out, K: l.In}, quantize.PerGroup
			if job.Group == 0 {
				job.Kind = quantize.PerRow
			}
			forms[i].Jobs[l.Weight] = job
		}
	}
	run := func(threads int) []calibrate.Group {
		groups, err := calibrate.Sensitivities(context.Background(), f, forms, columns,
			calibrate.Options{Threads: threads, Windows: windows, Progress: func(int64, int64) {}})
		if err != nil {
			t.Fatal(err)
		}
		return groups
	}
	groups := run(1)
	if more := run(3); !reflect.DeepEqual(groups, more) {
		t.Errorf("3 threads give %v, 1 %v", more, groups)
	}
	names := 0
	for _, g := range groups {
		names += len(g.Names)
		if eight := g.Divergences[4]; eight > g.Divergences[2]/20 || eight <= 0 {
			t.Errorf("%v: %v in int4, %v in int8", g.Names, g.Divergences[2], eight)
		}
		var measured, miss float64
		for i, form := range forms {
			rounded, own := roundedTo(t, f, form.Jobs, columns, g.Names)
			if form.Measured {
				measured, miss = divergenceWith(t, f, rounded, windows), own
			}
			if want := measured * own / miss; math.Abs(g.Divergences[i]/want-1) > 1e-9 {
				t.Errorf("%v, form %d: %v, want %v", g.Names, i, g.Divergences[i], want)
			}
		}
	}
	if len(groups) != 4 || names != len(forms[0].Jobs) {
		t.Errorf("%d of %d weights in %d groups", names, len(forms[0].Jobs), len(groups))
	}
}

// roundedTo has the values of weights in a form, and the sum of the squared errors of every fourth row, weighted by the
// columns.
func roundedTo(t *testing.T, f *packed.File, jobs map[string]quantize.Job, columns map[string][]float32,
	names []string) (values map[string][]float32, miss float64) {
	t.Helper()
	values = map[string][]float32{}
	for _, name := range names {
		s, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		job, h := jobs[name], columns[name]
		if job.Rule != "int8" {
			job.Columns = h
		}
		q, err := quantize.New(job)
		if err != nil {
			t.Fatal(err)
		}
		k, w := job.Shape.K, make([]float32, job.Shape.M*job.Shape.K)
		codes := make([]int8, len(w))
		if err := q.Quantize(codes, 0, s.Data); err != nil {
			t.Fatal(err)
		}
		job.DType.Widen(w, s.Data)
		perRow := len(q.Scales()) / job.Shape.M
		for i, v := range w {
			unit := i / k * perRow
			if job.Group > 0 {
				unit += i % k / job.Group
			}
			w[i] = q.Scales()[unit] * float32(codes[i])
			if i/k%4 == 0 {
				miss += float64(h[i%k]) * (float64(v) - float64(w[i])) * (float64(v) - float64(w[i]))
			}
		}
		values[name] = w
	}
	return values, miss
}

// divergenceWith is the mean divergence of a model with other weights.
func divergenceWith(t *testing.T, f *packed.File, rounded map[string][]float32, windows [][]int) (mean float64) {
	t.Helper()
	logits := func(observe func([]string, []float32, int) [][]float32) (rows [][]float32) {
		e, err := engine.New(f, engine.Options{Threads: 1, Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, w := range windows {
			s, err := e.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range w {
				row := make([]float32, e.Description().Vocab)
				if err := e.Forward(context.Background(), []engine.Chunk{{Seq: s, Tokens: []int{id},
					Logits: row}}); err != nil {
					t.Fatal(err)
				}
				rows = append(rows, row)
			}
			s.Close()
		}
		return rows
	}
	exact := logits(nil)
	for i, row := range logits(func(read []string, _ []float32, _ int) [][]float32 {
		others := make([][]float32, len(read))
		for i, name := range read {
			others[i] = rounded[name]
		}
		return others
	}) {
		p := engine.NewPrediction(exact[i], make([]float32, len(row)))
		mean += p.Divergence(engine.NewPrediction(row, make([]float32, len(row)))) / float64(len(exact))
	}
	return mean
}
