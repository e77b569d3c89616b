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

// TestSensitivities: the first form of a group has the divergence of a model with these rounded weights, computed token
// by token; other forms have it in proportion to their errors. Threads change nothing.
func TestSensitivities(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	windows := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}
	columns, err := calibrate.Columns(context.Background(), 1, f, windows, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string][]quantize.Job{}
	for _, l := range d.Blocks[0].Linears() {
		s, err := f.Tensor(l.Weight)
		if err != nil {
			t.Fatal(err)
		}
		job := quantize.Job{Rule: "int4", DType: quantize.DType(s.DType), Shape: pack.Shape{M: l.Out, K: l.In},
			Kind: quantize.PerGroup, Group: 64}
		finer, eight := job, job
		finer.Group, eight.Rule, eight.Kind, eight.Group = 32, "int8", quantize.PerRow, 0
		jobs[l.Weight] = []quantize.Job{job, finer, eight}
	}
	run := func(threads int) []calibrate.Group {
		groups, err := calibrate.Sensitivities(context.Background(), f, jobs, columns,
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
		if eight := g.Divergences[2]; eight > g.Divergences[0]/20 || eight <= 0 {
			t.Errorf("%v: %v in int4, %v in int8", g.Names, g.Divergences[0], eight)
		}
		rounded, miss := roundedTo(t, f, jobs, columns, g.Names, 0)
		_, finer := roundedTo(t, f, jobs, columns, g.Names, 1)
		if got, want := g.Divergences[1]/g.Divergences[0], finer/miss; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%v: groups of 32 cost %v of those of 64; their errors are %v of them", g.Names, got, want)
		}
		if want := divergenceWith(t, f, rounded, windows); math.Abs(g.Divergences[0]/want-1) > 1e-9 {
			t.Errorf("%v: %v; the model with these weights has %v", g.Names, g.Divergences[0], want)
		}
	}
	if len(groups) != 4 || names != len(jobs) {
		t.Errorf("%d of %d weights in %d groups", names, len(jobs), len(groups))
	}
}

// roundedTo has the values of weights in a form, and the sum of their squared errors, weighted by the columns.
func roundedTo(t *testing.T, f *packed.File, jobs map[string][]quantize.Job, columns map[string][]float32,
	names []string, form int) (values map[string][]float32, miss float64) {
	t.Helper()
	values = map[string][]float32{}
	for _, name := range names {
		s, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		job := jobs[name][form]
		job.Columns = columns[name]
		q, err := quantize.New(job)
		if err != nil {
			t.Fatal(err)
		}
		k, w := job.Shape.K, make([]float32, job.Shape.M*job.Shape.K)
		if err := q.Quantize(make([]int8, len(w)), 0, s.Data); err != nil {
			t.Fatal(err)
		}
		job.DType.Widen(w, s.Data)
		for i, v := range w {
			_, w[i] = q.Nearest(i/k, i%k, v)
			miss += float64(job.Columns[i%k]) * (float64(v) - float64(w[i])) * (float64(v) - float64(w[i]))
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
