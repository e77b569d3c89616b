package kernel

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestThresholds: every line has its origin, the line of a layout comes before that of all others, and no two are about
// the same.
func TestThresholds(t *testing.T) {
	origin := regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}, revision [0-9a-f]{8}$|^estimated`)
	for i, line := range thresholds {
		if line.Tokens != byTuning && (line.Tokens < 1 || !origin.MatchString(line.From)) {
			t.Errorf("%+v: without tokens or an origin", line)
		}
		for _, before := range thresholds[:i] {
			if before.same(&line) || before.Way == line.Way && before.ISA == line.ISA && before.Group == line.Group &&
				before.Layout == "" {
				t.Errorf("%+v: after %+v", line, before)
			}
		}
	}
	for _, c := range []struct {
		way    Way
		isa    ISA
		layout string
		group  int
		want   int
	}{
		{VecLUT, AVX2, "vnni4i", 0, 26}, {VecLUT, AVX2, "i1", 0, 20}, {VecLUT, NEON, "vnni4i", 0, 12},
		{VecLUT, AVX512VNNI, "vnni4i", 0, never}, {Int8First, AVXVNNI, "vnni4p", 0, 8},
		{VecLUT, AVXVNNI, "vnni4i", 0, 128}, {VecLUT, AVXVNNI, "vnni4t", 0, 16}, {VecLUT, AVXVNNI, "i2s", 0, 28},
		{Int8First, AVX512VNNI, "vnni4p", 0, byTuning}, {DenseTiles, AMX, "vnni4i", 0, byTuning},
		{OnTiles, AMX, "vnni4t", 0, 6}, {OnTiles, AMX, "vnni4i", 0, 2}, {OnTiles, AMX, "vnni4-64", 0, 2},
		{OnTiles, AMX, "vnni4t", 32, 12}, {OnTiles, AMX, "vnni4t", 128, 8}, {OnTiles, AMX, "vnni4t", otherGroups, 12},
		{OnTiles, AMX, "vnni4i-64", 256, 8}, {OnTiles, AMX, "vnni4i", 32, 6}, {OnTiles, AMX, "vnni4p", 64, 2},
	} {
		if got := tokensFrom(c.way, c.isa, pack.Spec{Name: c.layout}, c.group); got != c.want {
			t.Errorf("%+v: from %d tokens on", c, got)
		}
	}
	if got := tokensFrom(OnTiles, AMX, pack.Spec{Name: "vnni4-64", Alphabet: pack.Int8.Name}, 0); got != 6 {
		t.Errorf("int8 in vnni4-64 from %d tokens on", got)
	}
}

// TestOpens: on 512 bits the tuning says whether digits in two planes become int8, elsewhere the table; what was
// measured in its place is used before both.
func TestOpens(t *testing.T) {
	was := tuned
	defer func() { tuned = was }()
	for _, c := range []struct {
		tuning     Tuning
		own, least int // 0 = never
	}{{oneStream, byTuning, 0}, {ramps, byTuning, 24}, {oneStream, 8, 8}, {ramps, 8, 8}, {ramps, never, 0}} {
		tuned = c.tuning
		p := &tiled{opened: &opening{tokens: c.own}}
		for n := 1; n < 200; n++ {
			if got, want := p.opens(n), c.least > 0 && n >= c.least; got != want {
				t.Errorf("%s, %d: %d tokens: %v", c.tuning.Name, c.own, n, got)
			}
		}
	}
	if (&tiled{}).opens(100) {
		t.Error("codes in one plane are opened")
	}
}

// taking puts what Take changes back when the test ends.
func taking(t *testing.T) {
	list, tuning, why := inForce, tuned, tunedWhy
	t.Cleanup(func() { inForce, tuned, tunedWhy = list, tuning, why })
}

// everyThreshold is choices with the same number of tokens in all lines.
func everyThreshold(tokens int) *Choices {
	c := &Choices{CPU: ThisIdentity(), Tables: TablesVersion, Thresholds: slices.Clone(thresholds)}
	for i := range c.Thresholds {
		c.Thresholds[i].Tokens = tokens
	}
	return c
}

// TestThresholdsExtremes: sums do not depend on thresholds, whatever they are, and neither do scaled sums.
func TestThresholdsExtremes(t *testing.T) {
	taking(t)
	r := rand.New(rand.NewPCG(71, 72))
	for _, tokens := range []int{0, 1, MaxThreshold} {
		if err := Take(everyThreshold(tokens), "a test"); err != nil {
			t.Fatal(err)
		}
		for i, spec := range specs(t) {
			for _, n := range []int{1, 7, 8, 33} {
				newProblem(t, spec, pack.Shape{M: 300 + r.IntN(200), K: 60 + r.IntN(300)}, n, 0, r).check(t)
				if !onlyUnpacked(spec) {
					group := []int{32, 64, 96, 128, 256}[(i+n)%5]
					newProblem(t, spec, pack.Shape{M: 64 + r.IntN(64), K: group + r.IntN(300)}, n, group, r).check(t)
				}
			}
		}
	}
}

// TestTake: from the number of tokens on that was measured, and not before, products go another way.
func TestTake(t *testing.T) {
	const tokens = 17
	for _, c := range []struct {
		way   Way
		isa   ISA
		spec  pack.Spec
		group int
		taken func(w *Weights, n int) bool
	}{
		{DenseTiles, AVX512VNNI, pack.Spec{Name: "vnni4i"}, 0,
			func(w *Weights, n int) bool { return w.product.(*tiled).isDense(n) }},
		{Int8First, AVX512VNNI, pack.Spec{Name: "vnni4p", Alphabet: pack.Int6.Name}, 0,
			func(w *Weights, n int) bool { return w.product.(*tiled).opens(n) }},
		{Int8First, AVXVNNI, pack.Spec{Name: "vnni4p", Alphabet: pack.Int6.Name}, 0,
			func(w *Weights, n int) bool { return w.product.(*tiled).opens(n) }},
		{VecLUT, AVX2, pack.Spec{Name: "vnni4i"}, 0,
			func(w *Weights, n int) bool { return w.product.(*vecLUT).useful(call{p1: w.Panels(), t1: n}) }},
		{VecLUT, AVX2, pack.Spec{Name: "i2"}, 0,
			func(w *Weights, n int) bool { return w.product.(*vecLUT).useful(call{p1: w.Panels(), t1: n}) }},
		{VecLUT, NEON, pack.Spec{Name: "vnni4i"}, 0,
			func(w *Weights, n int) bool { return w.product.(*vecLUT).useful(call{p1: w.Panels(), t1: n}) }},
		{OnTiles, AMX, pack.Spec{Name: "vnni4i"}, 0,
			func(w *Weights, n int) bool { return w.product.(*batches).onTiles(n) }},
		{OnTiles, AMX, pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name}, 64,
			func(w *Weights, n int) bool { return w.product.(*batches).scalesOnTiles(call{t1: n, scaled: true}) }},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.way, c.isa, c.spec.Name), func(t *testing.T) {
			if !Have(c.isa) {
				t.Skip("not on this CPU")
			}
			taking(t)
			for _, least := range []int{tokens, 0} {
				if err := Take(everyThreshold(least), "a test"); err != nil {
					t.Fatal(err)
				}
				p := newProblem(t, c.spec, pack.Shape{M: 512, K: 256}, 1, c.group, rand.New(rand.NewPCG(1, 2)))
				at := slices.IndexFunc(For(p.layout.Spec()), func(k *Kernel) bool { return k.ISA == c.isa })
				w, err := BindWith(For(p.layout.Spec())[at], p.layout, p.matrix.Shape, p.packed, c.group)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []int{1, tokens - 1, tokens, 40} {
					if got := c.taken(w, n); got != (least > 0 && n >= least) {
						t.Errorf("from %d on: %d tokens: %v", least, n, got)
					}
				}
				w.Close()
			}
		})
	}
}

// TestTakeTuning: the tuning that was measured is used, with what it was measured on.
func TestTakeTuning(t *testing.T) {
	if tunedFor.Vendor == "" {
		t.Skip("an architecture without a choice")
	}
	for _, want := range Tunings() {
		taking(t)
		c := everyThreshold(5)
		c.Tuning = want.Name
		if err := Take(c, "a test"); err != nil {
			t.Fatal(err)
		}
		if got, _, why := Tuned(); got.Name != want.Name || why != "a test" {
			t.Errorf("%s, %s", got.Name, why)
		}
		TuneBy(nil)
		if got, _, _ := Tuned(); got.Name != want.Name {
			t.Errorf("measured once more: %s", got.Name)
		}
		for _, line := range Thresholds() {
			if line.Tokens != 5 || line.From != "a test" || !Have(line.ISA) {
				t.Errorf("%v", &line)
			}
		}
	}
}

// TestTakeRefused: choices for another CPU, of other tables, or out of range change nothing.
func TestTakeRefused(t *testing.T) {
	taking(t)
	was, tuning := Thresholds(), tuned.Name
	for name, spoil := range map[string]func(c *Choices){
		"vendor":   func(c *Choices) { c.CPU.Vendor += "x" },
		"family":   func(c *Choices) { c.CPU.Family++ },
		"model":    func(c *Choices) { c.CPU.Model++ },
		"features": func(c *Choices) { c.CPU.Features += " x" },
		"tables":   func(c *Choices) { c.Tables++ },
		"tuning":   func(c *Choices) { c.Tuning = "best" },
		"negative": func(c *Choices) { c.Thresholds[3].Tokens = -1 },
		"large":    func(c *Choices) { c.Thresholds[3].Tokens = MaxThreshold + 1 },
		"way":      func(c *Choices) { c.Thresholds[3].Way = "fast" },
		"set":      func(c *Choices) { c.Thresholds[3].ISA = "fast" },
		"layout":   func(c *Choices) { c.Thresholds[3].Layout = "fast" },
		"group":    func(c *Choices) { c.Thresholds[3].Group = 3 },
	} {
		c := everyThreshold(5)
		spoil(c)
		if err := Take(c, "a test"); err == nil {
			t.Errorf("%s: taken", name)
		}
		if !slices.Equal(Thresholds(), was) || tuned.Name != tuning {
			t.Fatalf("%s: refused, and something changed", name)
		}
	}
}

// TestForced: a way that is forced is taken whatever the table says, also by what a matrix is repacked for.
func TestForced(t *testing.T) {
	p := newProblem(t, pack.Spec{Name: "i2"}, pack.Shape{M: 512, K: 256}, 40, 0, rand.New(rand.NewPCG(1, 2)))
	at := slices.IndexFunc(For(p.layout.Spec()), func(k *Kernel) bool { return k.ISA == AVX2 || k.ISA == NEON })
	if at < 0 {
		t.Skip("no kernels with Vec-LUT")
	}
	for _, tokens := range []int{0, 1} {
		w, err := Forced{VecLUT, tokens}.BindWith(For(p.layout.Spec())[at], p.layout, p.matrix.Shape, p.packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		outer := w.product.(*vecLUT)
		for _, v := range []*vecLUT{outer, outer.few.(*vecLUT)} {
			if got := v.useful(call{p1: w.Panels(), t1: 1}); got != (tokens > 0) {
				t.Errorf("forced from %d tokens on: %v with 1", tokens, got)
			}
		}
		p.compare(t, w)
		w.Close()
	}
}
