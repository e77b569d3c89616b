package calibrate_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// calibrated is a weight with its chosen codes and scales.
type calibrated struct {
	codes  []int8
	scales []float32
}

// rules maps a part of a linear layer's name to its quantizer.
type rules map[string]string

func (r rules) of(name string) string {
	for part, rule := range r {
		if strings.Contains(name, part) {
			return rule
		}
	}
	return ""
}

var (
	by32  = packed.Activation{Kind: packed.ActivationGroup, Size: 32}
	token = packed.Activation{Kind: packed.ActivationToken}
)

// quantizeWindows are what quantizeSome computes.
var quantizeWindows = [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}, {1, 400, 3, 12, 88, 90, 17}}

// quantizeSome quantizes the linear layers that have a rule.
func quantizeSome(
	t *testing.T, ctx context.Context, threads int, a packed.Activation, rules rules,
) (map[string]calibrated, error) {
	t.Helper()
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	weights, got := map[string]calibrate.Weight{}, map[string]calibrated{}
	for i := range d.Blocks {
		for _, l := range d.Blocks[i].Linears() {
			rule := rules.of(l.Weight)
			if rule == "" {
				continue
			}
			s, err := f.Tensor(l.Weight)
			if err != nil {
				t.Fatal(err)
			}
			weights[l.Weight] = calibrate.Weight{
				Job: quantize.Job{Rule: rule, DType: quantize.DType(s.DType), Shape: pack.Shape{M: l.Out, K: l.In},
					Kind: quantize.PerGroup, Group: 64},
				Done: func(codes []int8, scales []float32) error {
					got[l.Weight] = calibrated{slices.Clone(codes), slices.Clone(scales)}
					return nil
				},
			}
		}
	}
	var done, total atomic.Int64
	o := calibrate.Options{Threads: threads, Windows: quantizeWindows, Activation: a}
	o.Progress = func(n, all int64) { done.Store(n); total.Store(all) }
	err := calibrate.Quantize(ctx, f, weights, o)
	want := int64(0)
	for _, w := range weights {
		want += int64(w.Job.Shape.M * w.Job.Shape.K)
	}
	if err == nil && (done.Load() != want || total.Load() != want || len(got) != len(weights)) {
		t.Errorf("%d of %d weights, of %d; %d of %d matrices", done.Load(), total.Load(), want, len(got), len(weights))
	}
	return got, err
}

// TestQuantize: threads change no bit. The codes of earlier layers change a layer, and so do int8 activations.
func TestQuantize(t *testing.T) {
	run := func(threads int, a packed.Activation, rules rules) map[string]calibrated {
		got, err := quantizeSome(t, context.Background(), threads, a, rules)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := run(1, by32, rules{"layers.0.": "int4", "layers.1.self_attn.": "int4"})
	if more := run(3, by32, rules{"layers.0.": "int4", "layers.1.self_attn.": "int4"}); !reflect.DeepEqual(all, more) {
		t.Error("3 threads give something else than 1")
	}
	const before, after = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"
	coarse := run(2, by32, rules{"layers.0.self_attn.": "int4", "layers.0.mlp.": "int2", "layers.1.self_attn.": "int4"})
	if !reflect.DeepEqual(coarse[before], all[before]) || reflect.DeepEqual(coarse[after], all[after]) {
		t.Errorf("codes of two bits between them: %s has the same: %t, %s: %t", before,
			reflect.DeepEqual(coarse[before], all[before]), after, reflect.DeepEqual(coarse[after], all[after]))
	}
	own := run(2, token, rules{before: "int4"})
	if reflect.DeepEqual(own[before], all[before]) {
		t.Error("groups of activations change nothing")
	}
	wide := packed.Activation{Kind: packed.ActivationToken16}
	if other := run(2, wide, rules{before: "int4"}); reflect.DeepEqual(other[before], own[before]) {
		t.Error("activations of 16 bits change nothing")
	}
}

// TestWeighed: the codes are nearly those for vectors that are divided by the size of the residual stream.
func TestWeighed(t *testing.T) {
	const name = "model.layers.1.mlp.down_proj.weight"
	wide := packed.Activation{Kind: packed.ActivationToken16}
	got, err := quantizeSome(t, context.Background(), 2, wide, rules{name: "int4"})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	s, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	job := quantize.Job{Rule: "int4", DType: quantize.DType(s.DType), Shape: pack.Shape{M: s.Shape[0], K: s.Shape[1]},
		Kind: quantize.PerGroup, Group: 64}
	values := map[string][]float32{name: nil}
	fedTo(t, f, map[string]quantize.Job{name: job}, inputs(t, f, quantizeWindows), values)
	differ, k := 0, job.Shape.K
	for i, c := range got[name].codes {
		scale := got[name].scales[i/k*((k+63)/64)+i%k/64]
		if values[name][i] != float32(c)*scale {
			differ++
		}
	}
	if differ > len(values[name])/4 { // 8 % do, for their rounded vectors; 65 % if all tokens count alike
		t.Errorf("%d of %d codes differ from those for weighed vectors", differ, len(values[name]))
	}
}

// TestQuantizeEnds: an end of the context and an error of Done end the pass.
func TestQuantizeEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := quantizeSome(t, ctx, 2, by32, rules{"layers.0.": "int4"}); !errors.Is(err, cause) {
		t.Errorf("ended: %v", err)
	}
	f, err := packed.Open(tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const name = "model.layers.0.self_attn.q_proj.weight"
	s, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space")
	job := quantize.Job{Rule: "int4", DType: quantize.DType(s.DType), Shape: pack.Shape{M: s.Shape[0], K: s.Shape[1]},
		Kind: quantize.PerRow}
	weights := map[string]calibrate.Weight{name: {Job: job, Done: func([]int8, []float32) error { return full }}}
	o := calibrate.Options{Threads: 1, Windows: [][]int{{1, 2, 3}}, Activation: by32, Progress: func(int64, int64) {}}
	if err := calibrate.Quantize(context.Background(), f, weights, o); !errors.Is(err, full) {
		t.Errorf("full: %v", err)
	}
}
