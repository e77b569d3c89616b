package calibrate_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestSensitivities: measured forms of a group have the divergence of a model with these weights, rounded or with codes
// by error feedback, computed token by token; the others that of the measured one before them, in proportion to the
// errors of the nearest codes in every fourth row. Activations have the divergence of a model with rounded vectors, of
// the layers or of the head.
// Threads change nothing, and feedback costs less than rounding.
func TestSensitivities(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	probes, windows := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}, longWindows(2, 70)
	columns, err := calibrate.Columns(context.Background(), 1, f, windows, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	forms := testForms(t, f, d)
	sums := map[bool]float64{}
	multiplied := inputs(t, f, windows)
	roundings := []packed.Activation{{Kind: packed.ActivationGroup, Size: 32}, {Kind: packed.ActivationToken}}
	var rounded, head []float64
	for _, group := range []int{32, 0} {
		rounded = append(rounded, divergenceOf(t, f, probes, roundedInputs(group, forms[0].Jobs)))
		head = append(head, divergenceOf(t, f, probes, roundedInputs(group, map[string]quantize.Job{d.Head: {}})))
	}
	if rounded[0] <= 0 || rounded[0] >= rounded[1] || head[0] <= 0 || head[0] >= head[1] {
		t.Fatalf("rounded vectors cost %v, in the head %v", rounded, head)
	}
	for _, feedback := range []bool{false, true} {
		o := calibrate.Sensing{Probes: probes, Columns: columns, Activations: roundings, Head: d.Head}
		within := 1e-9
		if feedback {
			o.Windows, o.Columns, within = windows, nil, 1e-4 // sums of squares, in float32
			columns = squares(forms[0].Jobs, multiplied)
		}
		costs := sensitivities(t, f, forms, o, 1)
		if more := sensitivities(t, f, forms, o, 3); !reflect.DeepEqual(costs, more) {
			t.Errorf("3 threads give %v, 1 %v", more, costs)
		}
		groups := costs.Groups
		for i := range rounded {
			if math.Abs(costs.Activations[i]/rounded[i]-1) > 1e-9 || math.Abs(costs.Head[i]/head[i]-1) > 1e-9 {
				t.Errorf("activations cost %v and in the head %v, want %v and %v", costs.Activations, costs.Head,
					rounded, head)
			}
		}
		names := 0
		for _, g := range groups {
			names += len(g.Names)
			sums[feedback] += g.Divergences[0] + g.Divergences[2]
			var measured, miss float64
			for i, form := range forms {
				others, own := roundedTo(t, f, form.Jobs, columns, g.Names)
				if form.Measured && feedback {
					fedTo(t, f, form.Jobs, multiplied, others)
				}
				if form.Measured {
					measured, miss = divergenceWith(t, f, others, probes), own
				}
				if want := measured * own / miss; math.Abs(g.Divergences[i]/want-1) > within {
					t.Errorf("feedback %t, %v, form %d: %v, want %v", feedback, g.Names, i, g.Divergences[i], want)
				}
			}
		}
		if len(groups) != 4 || names != len(forms[0].Jobs) {
			t.Errorf("%d of %d weights in %d groups", names, len(forms[0].Jobs), len(groups))
		}
	}
	if sums[true] >= 0.9*sums[false] {
		t.Errorf("%v with error feedback, %v without", sums[true], sums[false])
	}
}

// sensitivities runs the function on so many threads.
func sensitivities(t *testing.T, f *packed.File, forms []calibrate.Form, o calibrate.Sensing,
	threads int) *calibrate.Costs {
	t.Helper()
	done := int64(0)
	o.Threads, o.Progress = threads, func(n, _ int64) { done = n }
	costs, err := calibrate.Sensitivities(context.Background(), f, forms, o)
	if err != nil || done != int64(len(costs.Groups)) {
		t.Fatalf("%d groups: %v", done, err)
	}
	return costs
}

// TestTables: the forms of an embedding that is the head too have the divergence of files with these forms, whose
// activations have 16 bits; threads change nothing.
func TestTables(t *testing.T) {
	source := shared.Testdata(t, "tiny-bitnet")
	f, d := tinymodel.Open(t, tinymodel.Converted(t, source, packed.Recipe{Quant: "none", Golden: "none"}))
	probes := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}
	stored, err := f.Tensor(d.Embed)
	if err != nil {
		t.Fatal(err)
	}
	table := calibrate.Table{Name: d.Embed}
	var want []float64
	exact := predictions(t, f, probes, nil)
	for _, r := range []packed.Rule{{Quant: "int4", Scale: "group:32", Layout: "vnni4i"},
		{Quant: "int6", Scale: "group:64", Layout: "vnni4p"}, {Quant: "int8", Scale: "row", Layout: "vnni4"}} {
		job := quantize.Job{Rule: r.Quant, DType: quantize.DType(stored.DType), Kind: quantize.PerRow,
			Shape: pack.Shape{M: d.Vocab, K: d.Hidden}}
		if size, ok := strings.CutPrefix(r.Scale, "group:"); ok {
			job.Kind = quantize.PerGroup
			job.Group, _ = strconv.Atoi(size)
		}
		table.Jobs = append(table.Jobs, job)
		r.Match = d.Embed
		file, _ := tinymodel.Open(t, tinymodel.Converted(t, source, packed.Recipe{Quant: "none", Golden: "none",
			Activation: "token16", AllowLossy: true, Rules: []packed.Rule{r}}))
		want = append(want, meanDivergence(exact, predictions(t, file, probes, nil)))
	}
	columns, err := calibrate.Columns(t.Context(), 1, f, probes, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 3} {
		o := calibrate.Sensing{Probes: probes, Columns: columns, Tables: []calibrate.Table{table}}
		got := sensitivities(t, f, testForms(t, f, d)[:1], o, threads).Tables[0]
		for i, w := range want {
			if i > 0 && w > want[i-1]/2 || math.Abs(got[i]/w-1) > 0.01 {
				t.Errorf("%d threads: forms cost %v, want %v", threads, got, want)
			}
		}
	}
}

// longWindows are n windows of tokens without an order.
func longWindows(n, tokens int) (windows [][]int) {
	r := rand.New(rand.NewPCG(3, 60))
	for range n {
		w := []int{1}
		for len(w) < tokens {
			w = append(w, 3+r.IntN(200))
		}
		windows = append(windows, w)
	}
	return windows
}

// testForms are two measured forms of the weights of the first block, and three others.
func testForms(t *testing.T, f *packed.File, d *model.Description) []calibrate.Form {
	t.Helper()
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
	return forms
}

// inputs has what the weights multiply in all windows, divided by the root mean square of the residual stream where
// what they make goes to that alone.
func inputs(t *testing.T, f *packed.File, windows [][]int) map[string][]float32 {
	t.Helper()
	list := map[string][]float32{}
	predictions(t, f, windows, func(in engine.Input) [][]float32 {
		x := slices.Clone(in.Vectors) // of one token
		if in.Stream != nil {
			sum := 0.0
			for _, v := range in.Stream {
				sum += float64(v) * float64(v)
			}
			for i := range x {
				x[i] *= float32(1 / math.Sqrt(sum/float64(len(in.Stream))))
			}
		}
		for _, name := range in.Weights {
			list[name] = append(list[name], x...)
		}
		return nil
	})
	return list
}

// squares has the sums of the squares of the columns that weights multiply.
func squares(jobs map[string]quantize.Job, multiplied map[string][]float32) map[string][]float32 {
	sums := map[string][]float32{}
	for name, job := range jobs {
		sums[name] = make([]float32, job.Shape.K)
		for i, v := range multiplied[name] {
			sums[name][i%job.Shape.K] += v * v
		}
	}
	return sums
}

// fedTo puts the values of codes that error feedback chooses for what the weights multiply in place of others.
func fedTo(t *testing.T, f *packed.File, jobs map[string]quantize.Job, multiplied, values map[string][]float32) {
	t.Helper()
	for name := range values {
		s, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		job := jobs[name]
		w := make([]float32, job.Shape.M*job.Shape.K)
		job.DType.Widen(w, s.Data)
		if values[name], err = calibrate.Fed(job, w, multiplied[name]); err != nil {
			t.Fatal(err)
		}
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
func divergenceWith(t *testing.T, f *packed.File, values map[string][]float32, windows [][]int) float64 {
	t.Helper()
	return divergenceOf(t, f, windows, func(in engine.Input) [][]float32 {
		others := make([][]float32, len(in.Weights))
		for i, name := range in.Weights {
			others[i] = values[name]
		}
		return others
	})
}

// roundedInputs rounds what some weights multiply to 8 bits in groups of columns, or as a whole.
func roundedInputs(group int, jobs map[string]quantize.Job) func(engine.Input) [][]float32 {
	return func(in engine.Input) [][]float32 {
		if _, ok := jobs[in.Weights[0]]; !ok {
			return nil
		}
		for part := range slices.Chunk(in.Vectors, cmp.Or(group, in.Size)) {
			codes := make([]int8, len(part))
			scale, _ := tensor.Quantize(codes, part, tensor.MaxAbs(part))
			for i, c := range codes {
				part[i] = float32(c) * scale
			}
		}
		return nil
	}
}

// divergenceOf is the mean divergence of a model that is observed.
func divergenceOf(t *testing.T, f *packed.File, windows [][]int,
	observe func(engine.Input) [][]float32) float64 {
	t.Helper()
	return meanDivergence(predictions(t, f, windows, nil), predictions(t, f, windows, observe))
}

// meanDivergence is that of logits from exact ones.
func meanDivergence(exact, rows [][]float32) (mean float64) {
	for i, row := range rows {
		p := engine.NewPrediction(exact[i], make([]float32, len(row)))
		mean += p.Divergence(engine.NewPrediction(row, make([]float32, len(row)))) / float64(len(exact))
	}
	return mean
}

// predictions has the logits of all tokens.
func predictions(t *testing.T, f *packed.File, windows [][]int,
	observe func(engine.Input) [][]float32) (rows [][]float32) {
	t.Helper()
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
