package convert

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestTableCosts: what is expected of codes of the embedding and the head, chosen for a size or named by the user, is
// what a file has that holds them beside floats, with activations of 16 bits.
func TestTableCosts(t *testing.T) {
	for family, heads := range map[string][]packed.Head{"llama-3.2-1b": {"", packed.HeadInt4, packed.HeadInt6,
		packed.HeadInt8},
		"mistral-7b-v0.1": {"", packed.HeadInt4}} {
		source, target := mini(t, family, nil), filepath.Join(t.TempDir(), "model")
		for _, head := range heads {
			for _, method := range packed.Methods() {
				o := plain(packed.Recipe{Head: head, Activation: "token16"})
				o.Calibration, o.Method = []Document{{Text: calibrationText}}, method
				a := &allocating{path: source, o: o, apart: head != ""}
				t.Cleanup(a.close)
				if err := errors.Join(a.plan(t.Context()), a.measure(t.Context(), target)); err != nil {
					t.Fatal(err)
				}
				if text := head == packed.HeadInt4 || head == packed.HeadInt6; text !=
					((&Allocation{}).Apply(o).Calibration != nil) {
					t.Errorf("a text for --head %q alone: %t", head, !text)
				}
				cost, rules := a.fixed, []packed.Rule(nil)
				for i, table := range a.tables {
					cost += a.items[len(a.groups)+i][0].cost
					rules = append(rules, table.rules[0])
				}
				o.Recipe.Quant, o.Recipe.Rules, o.Recipe.AllowLossy = QuantNone, rules, true
				if head == packed.HeadInt8 {
					o.Calibration = nil
				}
				file, floats := convertTo(t, source, o), convertTo(t, source, plain(packed.Recipe{Quant: QuantNone}))
				probes := a.plans[0].probed()
				for i := range probes {
					probes[i] = probes[i][:min(len(probes[i]), probeWindow)]
				}
				got := divergence(t, floats, file, probes)
				apart := len(a.tables) > 1
				if apart && (cost < got/2 || cost > 2*got) || !apart && math.Abs(cost/got-1) > 0.01 {
					t.Errorf("%s, head %q, %s: %g is expected, the file has %g", family, head, method, cost, got)
				}
				sum := a.fixed
				for _, options := range a.items {
					sum += options[0].cost
				}
				d, r := a.expect(make([]int, len(a.items)))
				if math.Abs(d-sum-r.Divergence) > 1e-12 || (a.fixed > 0) != (head != "") {
					t.Errorf("%s, head %q: %g is expected of forms that cost %g, %g of them a head that is named",
						family, head, d, sum, a.fixed)
				}
			}
		}
	}
}

// TestIncludedTables: forms are chosen for the embedding and the head only where the recipe includes them.
func TestIncludedTables(t *testing.T) {
	source := mini(t, "mistral-7b-v0.1", nil)
	for _, want := range [][]string{nil, {"lm_head.weight"}, {"model.embed_tokens.weight", "lm_head.weight"}} {
		a := &allocating{path: source, o: plain(packed.Recipe{Include: append([]string{"*.mlp.*"}, want...)})}
		a.o.Calibration = []Document{{Text: calibrationText}}
		t.Cleanup(a.close)
		if err := a.plan(t.Context()); err != nil {
			t.Errorf("%v: %v", want, err)
		}
		var names []string
		for _, table := range a.tables {
			names = append(names, table.name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("forms of %v, where %v are included", names, want)
		}
		if len(want) == 0 && a.least != a.plans[0].Bytes {
			t.Errorf("%d bytes at least, and %d with the smallest layers", a.least, a.plans[0].Bytes)
		}
	}
}

// divergence is the mean divergence of what a file predicts from what floats do.
func divergence(t *testing.T, floats, file *packed.File, windows [][]int) (mean float64) {
	t.Helper()
	logits := func(f *packed.File) (list [][]float32) {
		e, err := engine.New(f, engine.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, w := range windows {
			s, err := e.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			vocab := e.Description().Vocab
			c := engine.Chunk{Seq: s, Tokens: w, Logits: make([]float32, len(w)*vocab)}
			if err := e.Forward(t.Context(), []engine.Chunk{c}); err != nil {
				t.Fatal(err)
			}
			list = slices.AppendSeq(list, slices.Chunk(c.Logits, vocab))
			s.Close()
		}
		return list
	}
	exact, own := logits(floats), logits(file)
	for i, row := range exact {
		p := engine.NewPrediction(row, make([]float32, len(row)))
		mean += p.Divergence(engine.NewPrediction(own[i], make([]float32, len(row)))) / float64(len(exact))
	}
	return mean
}
