package convert

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestAllocate: a choice fits its budget and is better than the forms that fit it for all layers; its rules make the
// file that it promises. Threads change nothing.
func TestAllocate(t *testing.T) {
	source := mini(t, "llama-3.2-1b", nil)
	a := measured(t, source, packed.MeanSquare, 1)
	if three := measured(t, source, packed.MeanSquare, 3); !reflect.DeepEqual(three.groups, a.groups) {
		t.Errorf("three threads give %+v, one %+v", three.groups, a.groups)
	}
	o, within := a.o, func(b Budget) *Allocation { return allocated(t, a, b) }
	const most = len(budgetForms) - 1
	all := within(Budget{Bits: 16})
	if row, group := all.Forms[most-1], all.Forms[most]; row.Weights+group.Weights != a.count || row.Weights == 0 ||
		group.Weights == 0 || all.Divergence > min(row.Divergence, group.Divergence) ||
		group.Bytes >= row.Bytes || row.Bytes >= all.Bytes {
		t.Errorf("with room for everything: %+v", all)
	}
	if all.Apply(o).Calibration != nil {
		t.Error("a text for int8 alone")
	}
	least := all.Forms[0].Bytes
	if none := within(Budget{Bytes: least}); none.Forms[0].Weights != a.count || none.Bytes != least {
		t.Errorf("with room for the smallest form: %+v", none)
	}
	file := (least + all.Bytes) / 2
	half := within(Budget{Bytes: file})
	if half.Bytes > file || half.Divergence <= all.Divergence {
		t.Errorf("for a budget of %d: %+v", file, half)
	}
	weights := int64(0)
	for i, f := range half.Forms {
		if f.Bytes <= file && f.Divergence < half.Divergence {
			t.Errorf("%s, which fits, has %g; the choice %g", f.Name, f.Divergence, half.Divergence)
		}
		weights += f.Weights
		if i > 0 && f.Divergence > half.Forms[i-1].Divergence {
			t.Errorf("%s costs more than %s: %+v", f.Name, half.Forms[i-1].Name, half.Forms)
		}
	}
	mixed := slices.DeleteFunc(slices.Clone(half.Forms), func(f FormShare) bool { return f.Weights == 0 })
	if weights != a.count || half.Weights != a.count || len(mixed) < 2 {
		t.Errorf("%+v, for %d weights", half, a.count)
	}
	ratio := math.Exp(half.Divergence)
	if r := within(Budget{Ratio: ratio}); math.Exp(r.Divergence) > ratio || r.Bits > half.Bits {
		t.Errorf("for the ratio %g of %+v: %+v", ratio, half, r)
	}
	a.budget = Budget{Ratio: 1 + 1e-12}
	if _, err := a.solve(t.Context(), a.bytes[most]); !errors.Is(err, pack.ErrLimit) ||
		!strings.Contains(err.Error(), "more than 1.000000000001 times") {
		t.Errorf("a ratio that int8 does not reach: %v", err)
	}
	applied := half.Apply(o)
	if applied.Calibration == nil {
		t.Error("no text for int4")
	}
	path := filepath.Join(t.TempDir(), "model")
	if _, err := newPlan(t, source, applied).Run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(path); err != nil || i.Size() != half.Bytes {
		t.Errorf("the rules give a file of %v; %d bytes were promised: %v", i, half.Bytes, err)
	}
	from, to := a.bitRange()
	few, many := within(Budget{Bits: from}), within(Budget{Bits: to})
	if few.Bytes != least || many.Bytes != all.Bytes {
		t.Errorf("%g to %g bits: %d to %d bytes, not %d to %d", from, to, few.Bytes, many.Bytes, least, all.Bytes)
	}
	items, groups := a.items, a.groups
	front, err := a.front(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(front); front[0].Bytes != least || !reflect.DeepEqual(front[n-1].Forms, all.Forms) || n < 8 || n > 22 {
		t.Errorf("the front of %d ends in %+v and %+v", n, front[0], front[n-1])
	}
	for i, r := range front {
		if r.Bytes > r.Budget.Bytes || within(r.Budget).Bytes != r.Bytes {
			t.Errorf("the front has %+v", r)
		}
		if i > 0 && (r.Budget.Bytes-front[i-1].Budget.Bytes > (all.Bytes-least)/7 ||
			r.Divergence > front[i-1].Divergence || r.Bytes <= front[i-1].Bytes) {
			t.Errorf("behind %+v the front has %+v", front[i-1], r)
		}
	}
	a.items = [][]option{slices.Repeat([]option{{1, 1}}, len(budgetForms))}
	a.groups = a.groups[:1]
	if front, err := a.front(t.Context()); err != nil || len(front) != 1 {
		t.Errorf("a front of forms that are alike: %d, %v", len(front), err)
	}
	a.items, a.groups = items, groups
	for b := least; b < all.Bytes; b += (all.Bytes - least) / 40 {
		a.budget = Budget{Bytes: b}
		r, err := a.solve(t.Context(), all.Bytes) // as if all else took nothing
		if err != nil || r.Bytes > b || within(Budget{Bytes: b}).Bytes > b {
			t.Errorf("a file of more than %d bytes: %+v, %v", b, r, err)
		}
	}
}

// TestAllocateFeedback: expected is what error feedback leaves, which is less than rounding does, so that a file of the
// perplexity that is asked for is smaller. Threads change nothing.
func TestAllocateFeedback(t *testing.T) {
	source := mini(t, "llama-3.2-1b", nil)
	rounded, fed := measured(t, source, packed.MeanSquare, 2), measured(t, source, packed.GPTQ, 1)
	if three := measured(t, source, packed.GPTQ, 3); !reflect.DeepEqual(three.groups, fed.groups) {
		t.Errorf("three threads give %+v, one %+v", three.groups, fed.groups)
	}
	const most = len(budgetForms) - 1
	for form, rule := range budgetForms[:most] {
		if fed, rounded := uniform(fed, form), uniform(rounded, form); fed >= rounded {
			t.Errorf("%s: %g with error feedback, %g without", rule.Quant, fed, rounded)
		}
	}
	ratio := math.Exp((uniform(rounded, 2) + uniform(rounded, 3)) / 2) // between those of int4
	small, large := allocated(t, fed, Budget{Ratio: ratio}), allocated(t, rounded, Budget{Ratio: ratio})
	if small.Bytes >= large.Bytes || math.Exp(small.Divergence) > ratio {
		t.Errorf("%d bytes with error feedback, for a divergence of %g; %d without, for %g", small.Bytes,
			small.Divergence, large.Bytes, large.Divergence)
	}
}

// TestSensing: the windows that are probed are in no Gram matrix, unless there are no others.
func TestSensing(t *testing.T) {
	for n, want := range map[int]struct{ probes, others int }{1: {1, 1}, 2: {2, 2}, 3: {2, 1}, 20: {2, 8}} {
		p := &Plan{o: Options{Method: packed.GPTQ}}
		for i := range n {
			p.windows = append(p.windows, slices.Repeat([]int{i}, 2*probeWindow))
		}
		s, err := p.sensing(t.Context(), nil)
		if err != nil || len(s.Probes) != want.probes || len(s.Windows) != want.others {
			t.Errorf("%d windows: %d probes, %d others, %v", n, len(s.Probes), len(s.Windows), err)
		}
		for _, q := range s.Probes {
			shared := slices.ContainsFunc(s.Windows, func(w []int) bool { return w[0] == q[0] })
			if len(q) != probeWindow || shared != (n <= want.probes) {
				t.Errorf("%d windows: the %d tokens of window %d are probed; in a Gram matrix: %t", n, len(q), q[0],
					shared)
			}
		}
	}
}

// uniform is the expected divergence of a file with all groups in one form.
func uniform(a *allocating, form int) float64 {
	d, _ := a.expect(slices.Repeat([]int{form}, len(a.items)))
	return d
}

// TestAllocateActivation: where activations of 8 bits would cost more than the weights, the file has those of 16 bits,
// unless the recipe names some; the expected divergence is that of both.
func TestAllocateActivation(t *testing.T) {
	source := mini(t, "llama-3.2-1b", nil)
	a := measured(t, source, packed.MeanSquare, 2)
	const most = len(budgetForms) - 1
	of := func(kind packed.ActivationKind, size int) Rounding {
		want := packed.Activation{Kind: kind, Size: size}
		i := slices.IndexFunc(a.rounds, func(r Rounding) bool { return r.Activation == want })
		if i < 0 {
			t.Fatalf("%s of %d columns was not measured: %+v", kind, size, a.rounds)
		}
		return a.rounds[i]
	}
	for i := range a.rounds {
		a.rounds[i].Divergence *= 4 // random weights go with any activations
	}
	by32, by64, wide := of(packed.ActivationGroup, 32), of(packed.ActivationGroup, 64), of(packed.ActivationToken16, 0)
	if len(a.rounds) != 4 || wide.Divergence <= 0 || 100*wide.Divergence > by32.Divergence ||
		by32.Divergence > by64.Divergence {
		t.Errorf("roundings cost %+v", a.rounds)
	}
	weights := func(form int) (sum float64) {
		for _, options := range a.items {
			sum += options[form].cost
		}
		return sum
	}
	best := 0.0
	for _, options := range a.items {
		best += slices.MinFunc(options, func(a, b option) int { return cmp.Compare(a.cost, b.cost) }).cost
	}
	if by64.Divergence > weights(0) || by32.Divergence < weights(most) {
		t.Fatalf("activations cost %g, weights %g to %g", by32.Divergence, weights(most), weights(0))
	}
	check := func(o Options, r *Allocation, want Rounding, weights float64) {
		t.Helper()
		p := newPlan(t, source, r.Apply(o))
		if r.Activation != want || p.Activation != want.String() || r.Divergence != weights+want.Divergence {
			t.Errorf("%+v of a file with %s, want %+v beside %g of the weights", r, p.Activation, want, weights)
		}
	}
	small, large := allocated(t, a, Budget{Bytes: a.plans[0].Bytes}), allocated(t, a, Budget{Bits: 16})
	check(a.o, small, by64, weights(0))
	check(a.o, large, wide, best)
	if f := large.Forms; f[0].Activation != by64.Activation || f[1].Activation != by32.Activation ||
		f[most].Activation != wide.Activation {
		t.Errorf("forms have %+v", f)
	}
	mixed := make([]int, len(a.items))
	mixed[len(mixed)-1] = 1
	if usual := a.usual(mixed); usual != by32.Activation {
		t.Errorf("%s with one matrix in groups of 32", usual)
	}
	ratio := math.Exp(best + by32.Divergence/2) // activations of 8 bits alone cost more
	if r := allocated(t, a, Budget{Ratio: ratio}); r.Activation != wide || math.Exp(r.Divergence) > ratio {
		t.Errorf("for the ratio %g: %+v", ratio, r)
	}
	for i := range a.rounds {
		if a.rounds[i].Activation != wideActivation {
			a.rounds[i].Divergence = 1e3 // so that even the smallest file has 16 bits, which its header says
		}
	}
	for more := range int64(200) {
		a.budget, a.least = Budget{Bytes: a.plans[0].Bytes + more}, a.plans[0].Bytes
		room, err := a.room()
		if err != nil {
			t.Fatal(err)
		}
		if r, err := a.solve(t.Context(), room); (err != nil || r.Bytes > a.budget.Bytes) &&
			!errors.Is(err, pack.ErrLimit) {
			t.Fatalf("%d bytes more than the smallest file: %+v, %v", more, r, err)
		}
	}
	named := &allocating{path: source, o: a.o, apart: true}
	named.o.Recipe.Activation = "token"
	t.Cleanup(named.close)
	if err := named.plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := named.measure(t.Context(), filepath.Join(t.TempDir(), "model")); err != nil {
		t.Fatal(err)
	}
	if len(named.rounds) != 1 || named.rounds[0].Kind != packed.ActivationToken {
		t.Fatalf("for --activation token: %+v", named.rounds)
	}
	check(named.o, allocated(t, named, Budget{Bits: 16}), named.rounds[0], best)
}

// TestAllocateTables: within a size, the embedding and the head have forms too, so that the file is better than with
// either as it is; the layers have the calibration text all the same, and without one what the tables have needs none.
func TestAllocateTables(t *testing.T) {
	for family, tables := range map[string][]string{"llama-3.2-1b": {"model.embed_tokens.weight"},
		"mistral-7b-v0.1": {"model.embed_tokens.weight", "lm_head.weight"}} {
		source, target := mini(t, family, nil), filepath.Join(t.TempDir(), "model")
		a := &allocating{path: source, o: plain(packed.Recipe{})}
		a.o.Calibration, a.o.Method, a.o.Threads = []Document{{Text: calibrationText}}, packed.MeanSquare, 2
		t.Cleanup(a.close)
		if err := a.plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.measure(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		kept := a.plans[0].Bytes
		r := allocated(t, a, Budget{Bytes: kept})
		var names []string
		for i, f := range r.Tables {
			names = append(names, f.Name)
			if f.Rule.Quant == "" || !slices.ContainsFunc(r.Rules, func(r packed.Rule) bool {
				return reflect.DeepEqual(r, f.Rule)
			}) {
				t.Errorf("%s: %+v is chosen for a file that holds the smallest layers beside floats", family, f)
			}
			costs := a.items[len(a.groups)+i]
			if n := len(costs); n != 4 || costs[n-1].cost != 0 || costs[0].cost <= costs[2].cost ||
				costs[0].bytes >= costs[1].bytes || costs[2].bytes >= costs[3].bytes {
				t.Errorf("%s: %s: %+v", family, f.Name, costs)
			}
		}
		if !slices.Equal(names, tables) || r.Divergence >= r.Forms[0].Divergence || r.Bytes > kept {
			t.Errorf("%s: %v; %+v, where the layers alone have %+v", family, names, r, r.Forms[0])
		}
		if p := newPlan(t, source, r.Apply(a.o)); p.Bytes != r.Bytes {
			t.Errorf("%s: %d bytes, planned are %d", family, r.Bytes, p.Bytes)
		}
		if least := allocated(t, a, Budget{Bytes: a.least}); least.Forms[0].Weights != a.count ||
			least.Bytes != a.least || least.Tables[0].Rule.Quant != "int4" {
			t.Errorf("%s: with room for the smallest forms, %d bytes: %+v", family, a.least, least)
		}
		a.plans[0].step(tables[0]).row.BytesOut, a.tables = 1, nil
		if err := a.planTables(t.Context()); err != nil || len(a.tables[0].forms) != 1 {
			t.Errorf("%s: %+v for an embedding of one byte, %v", family, a.tables[0].rules, err)
		}
		all := Allocation{Rules: append(slices.Clone(r.Rules), packed.Rule{Match: "*"}), Tables: r.Tables}
		all.Rules = slices.DeleteFunc(all.Rules, func(r packed.Rule) bool { return !slices.Contains(names, r.Match) })
		if all.Apply(a.o).Calibration == nil {
			t.Errorf("%s: no text for the forms of %v alone", family, names)
		}
		for _, head := range []packed.Head{"", packed.HeadBF16} {
			for _, b := range []Budget{{Bytes: kept}, {Bits: 4}} {
				o := a.o
				o.Recipe.Head = head
				r, err := Allocate(t.Context(), source, o, b, target)
				if err != nil || (len(r.Tables) > 0) != (head == "" && b.Bits == 0) {
					t.Errorf("%s: head %q, %+v: %+v, %v", family, head, b, r, err)
				}
			}
		}
	}
}

// TestFrontSizes: the ends are enough for what they are made for, and nearly no more; there are 8 to 20 steps between.
func TestFrontSizes(t *testing.T) {
	for _, c := range []struct{ from, to, least, step, most int64 }{
		{62_123_456, 163_456_789, 62_200_000, 10_000_000, 163_500_000},
		{1_000, 1_007, 1_000, 1, 1_007}, {5, 5, 5, 1, 5}, {999, 1_998, 999, 100, 1_998},
		{700_000_001, 1_700_000_000, 700_100_000, 100_000_000, 1_700_000_000},
		{123_456, 140_001, 123_460, 2_000, 140_010},
	} {
		if least, step, most := frontSizes(c.from, c.to); least != c.least || step != c.step || most != c.most {
			t.Errorf("%d to %d: %d, %d, %d", c.from, c.to, least, step, most)
		}
	}
}

// TestAllocateHead: what rounded activations cost in a head of codes is expected of such heads alone, and counts in the
// choice, which is the best one of all.
func TestAllocateHead(t *testing.T) {
	for _, family := range []string{"llama-3.2-1b", "mistral-7b-v0.1"} {
		source := mini(t, family, nil)
		a := &allocating{path: source, o: plain(packed.Recipe{Activation: "group:32"})}
		a.o.Calibration, a.o.Method = []Document{{Text: calibrationText}}, packed.MeanSquare
		t.Cleanup(a.close)
		if err := a.plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.measure(t.Context(), filepath.Join(t.TempDir(), "model")); err != nil {
			t.Fatal(err)
		}
		a.groups, a.items = a.groups[:2], slices.Concat(a.items[:2], a.items[len(a.groups):])
		head := len(a.items) - 1 // the last table, or the only one
		var least, most int64
		for _, options := range a.items {
			least, most = least+options[0].bytes, most+options[len(options)-1].bytes
		}
		coded, floats := 0, 0
		for _, cost := range []float64{0, a.items[head][0].cost, 1000 * a.items[head][0].cost} {
			a.heads = []float64{cost}
			for room := least; room <= most; room += (most - least) / 20 {
				choice := a.within(room)
				got, rounding := a.expect(choice)
				if want, fits := everyExpected(a, nil, room); !fits || got > want+1e-12 {
					t.Errorf("%s, %g of the head, %d bytes: %v is expected to cost %g, the best choice %g", family,
						cost, room, choice, got, want)
				}
				added, isCoded := rounding.Divergence-a.rounds[0].Divergence, choice[head] < len(a.items[head])-1
				if isCoded && math.Abs(added-cost) > 1e-9 || !isCoded && added != 0 {
					t.Errorf("%s: %g is added for form %d of the head, not %g", family, added, choice[head], cost)
				}
				if isCoded {
					coded++
				} else {
					floats++
				}
			}
		}
		if coded == 0 || floats == 0 {
			t.Errorf("%s: %d heads of codes, %d of floats", family, coded, floats)
		}
	}
	named := &allocating{path: mini(t, "llama-3.2-1b", nil), apart: true}
	named.o = plain(packed.Recipe{Head: packed.HeadInt8})
	named.o.Calibration, named.o.Method = []Document{{Text: calibrationText}}, packed.MeanSquare
	t.Cleanup(named.close)
	if err := named.plan(t.Context()); err != nil || !named.headCoded(nil) {
		t.Errorf("--head int8 has no codes: %v", err)
	}
}

// everyExpected is the least expected divergence of all choices that begin so, in so many bytes.
func everyExpected(a *allocating, choice []int, room int64) (least float64, fits bool) {
	if i := len(choice); i < len(a.items) {
		for form, o := range a.items[i] {
			d, ok := everyExpected(a, append(slices.Clone(choice), form), room-o.bytes)
			if ok && (!fits || d < least) {
				least, fits = d, true
			}
		}
		return least, fits
	}
	least, _ = a.expect(choice)
	return least, room >= 0
}

// measured has the sensitivities of a model for a method.
func measured(t *testing.T, source string, method packed.Method, threads int) *allocating {
	t.Helper()
	dir := t.TempDir()
	a := &allocating{path: source, o: plain(packed.Recipe{}), apart: true}
	a.o.Calibration, a.o.Method, a.o.Threads = []Document{{Text: calibrationText}}, method, threads
	t.Cleanup(a.close)
	err := a.plan(t.Context())
	if err == nil {
		err = a.measure(t.Context(), filepath.Join(dir, "model"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v are left in the directory", left)
	}
	return a
}

// allocated chooses for a budget.
func allocated(t *testing.T, a *allocating, b Budget) *Allocation {
	t.Helper()
	a.budget = b
	room, err := a.room()
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.solve(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAllocateExperts: the experts of a block have a form for each projection, counted in all their bytes; the choice
// is the best one of all, and its rules make the file that it promises, with experts of few bits beside layers that no
// text is needed for too.
func TestAllocateExperts(t *testing.T) {
	for _, family := range []string{"qwen1.5-moe-a2.7b", "mixtral-8x7b-v0.1"} {
		source := mini(t, family, nil)
		a := measured(t, source, packed.GPTQ, 2)
		var experts []int // numbers of items
		for i, g := range a.groups {
			if !strings.Contains(g.Names[0], ".experts.") {
				continue
			}
			experts = append(experts, i)
			for form, o := range a.items[i] {
				s := a.plans[form].step(g.Names[0])
				if len(g.Names) != 1 || o.bytes != s.row.BytesOut || len(s.source.Parts) < 2 || o.cost <= 0 ||
					form > 0 && o.cost >= a.items[i][min(form, len(budgetForms)-2)-1].cost { // both of int8 behind int6
					t.Errorf("%s: form %d of %v: %+v, %d parts, planned %d bytes", family, form, g.Names, o,
						len(s.source.Parts), s.row.BytesOut)
				}
			}
		}
		if blocks := len(a.plans[0].model.Blocks); len(experts) != 3*blocks {
			t.Fatalf("%s: %d projections of experts in %d blocks", family, len(experts), blocks)
		}
		most := a.plans[len(a.plans)-1].Bytes
		for file := a.least; file <= most; file += (most - a.least) / 7 {
			r := allocated(t, a, Budget{Bytes: file})
			p := newPlan(t, source, r.Apply(a.o))
			if r.Bytes > file || p.Bytes != r.Bytes || r.Weights != a.count {
				t.Errorf("%s: %d bytes promised, %d planned, of %d", family, r.Bytes, p.Bytes, file)
			}
		}
		half := allocated(t, a, Budget{Bytes: (a.least + most) / 2})
		path := filepath.Join(t.TempDir(), "model")
		if _, err := newPlan(t, source, half.Apply(a.o)).Run(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(path); err != nil || i.Size() != half.Bytes {
			t.Errorf("%s: the rules give a file of %v; %d bytes were promised: %v", family, i, half.Bytes, err)
		}
		choice := slices.Repeat([]int{len(budgetForms) - 1}, len(a.items))
		for _, i := range experts {
			choice[i] = 0
		}
		r, err := a.result(t.Context(), choice)
		if err != nil || r.Apply(a.o).Calibration != nil {
			t.Errorf("%s: a text for experts and int8 alone: %v", family, err)
		}
		few := [][]option{a.items[0], a.items[experts[0]], a.items[experts[1]], a.items[experts[2]]}
		for room := int64(0); room < 8*few[1][6].bytes; room += few[1][0].bytes / 3 {
			want, fits := everyChoice(few, room)
			if got := knapsack(few, room); (got != nil) != fits || fits && total(few, got).cost > want+1e-12 {
				t.Errorf("%s: %v in %d bytes, where the best choice costs %g", family, got, room, want)
			}
		}
	}
}

// TestAllocateRefuses: a budget below the smallest forms, and recipes that choose already are refused before anything
// is computed.
func TestAllocateRefuses(t *testing.T) {
	dense, moe, target := mini(t, "llama-3.2-1b", nil), mini(t, "qwen1.5-moe-a2.7b", nil), t.TempDir()
	text := Options{Calibration: []Document{{Text: calibrationText}}, Progress: func(what string, _, _ int64) {
		t.Errorf("progress with %s", what)
	}}
	scale, rules, experts, none := text, text, text, text
	none.Recipe.Include = []string{"lm_head.weight"}
	experts.Recipe.Include = []string{"*.experts.*"}
	scale.Recipe.Scale, rules.Recipe.Rules = "row", []packed.Rule{{Match: "*", Keep: true}}
	for name, c := range map[string]struct {
		source string
		o      Options
		budget Budget
		want   error
		says   string
	}{
		"bits": {dense, text, Budget{Bits: 3.2}, pack.ErrLimit,
			`files of \d+ to \d+ bytes.* 3\.\d\d to \d\.\d\d bits`},
		"size":    {dense, text, Budget{Bytes: 1000}, pack.ErrLimit, `files of \d+ to \d+ bytes`},
		"no text": {dense, Options{}, Budget{Bits: 5}, pack.ErrUnsupported, "calibration text"},
		"scale":   {dense, scale, Budget{Bits: 5}, pack.ErrUnsupported, "rules and scale"},
		"rules":   {dense, rules, Budget{Bits: 5}, pack.ErrUnsupported, "rules and scale"},
		"none": {dense, none, Budget{Bits: 5}, pack.ErrUnsupported,
			"^" + regexp.QuoteMeta(dense) + ": unsupported: there is no linear layer.*include some"},
		"codes": {shared.Testdata(t, "tiny-bitnet-packed"), text, Budget{Bits: 5}, pack.ErrUnsupported,
			"leave out the rule for it, or --size, "},
		"experts": {moe, experts, Budget{Bits: 5}, pack.ErrUnsupported, "experts.*include other layers too"},
	} {
		_, err := Allocate(t.Context(), c.source, c.o, c.budget, filepath.Join(target, "model"))
		if !errors.Is(err, c.want) || !regexp.MustCompile(c.says).MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(target); len(left) > 0 {
		t.Errorf("%v are left in the directory", left)
	}
}
