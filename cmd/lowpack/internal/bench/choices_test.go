package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
)

// TestCrossover: the first number of tokens from which the other way is faster, wherever it lies, by few measurements.
func TestCrossover(t *testing.T) {
	for i := range len(tries) + 1 {
		want, from := 0, 1<<30
		if i < len(tries) {
			want, from = tries[i], tries[i]
		}
		asked := 0
		got, err := crossover(tries, func(n int) (bool, error) {
			asked++
			return n >= from, nil
		})
		if got != want || err != nil || asked > 6 {
			t.Errorf("from %d on: %d, %v, %d measurements", from, got, err, asked)
		}
	}
	failed := errors.New("failed")
	if _, err := crossover(tries, func(int) (bool, error) { return true, failed }); err != failed {
		t.Error(err)
	}
}

// TestMeasureChoices: each line of the table is measured on a matrix of its own kind; on a clock that always shows the
// same time no other way is faster, and no tuning.
func TestMeasureChoices(t *testing.T) {
	lines := kernel.Thresholds()
	usual, _, _ := kernel.Tuned()
	r, err := measureChoices(context.Background(), quick(), lines, pack.Shape{M: 320, K: 256})
	if err != nil {
		t.Fatal(err)
	}
	if now, _, _ := kernel.Tuned(); now.Name != usual.Name {
		t.Errorf("the tuning is %s", now.Name)
	}
	if len(r.Thresholds) != len(lines) {
		t.Errorf("%d of %d lines", len(r.Thresholds), len(lines))
	}
	cases := map[string]bool{}
	for i, row := range r.Thresholds {
		if row.Tokens != 0 || row.InForce != lines[i].Tokens || row.Noise || len(row.Points) == 0 {
			t.Errorf("%+v", row)
		}
		key := fmt.Sprintln(row.Way, row.ISA, row.Measured)
		if cases[key] {
			t.Errorf("measured for two lines: %s", key)
		}
		cases[key] = true
	}
	for _, row := range r.Tunings {
		if row.Chosen != (row.Name == usual.Name) || row.Noise {
			t.Errorf("%+v", row)
		}
	}
	c := r.Kept(time.Date(2026, 11, 29, 23, 0, 0, 0, time.UTC))
	if len(c.Thresholds) != len(lines) || c.Date != "2026-11-29" || c.CPU != kernel.ThisIdentity() {
		t.Errorf("%+v", c)
	}
}

// TestMeasureTunings: the fastest tuning is chosen, and is that of the process only while thresholds are measured.
func TestMeasureTunings(t *testing.T) {
	usual, cpu, _ := kernel.Tuned()
	if cpu.Vendor == "" {
		t.Skip("an architecture without a choice")
	}
	fast := kernel.Tunings()[0].Name
	if fast == usual.Name {
		fast = kernel.Tunings()[1].Name
	}
	var at time.Time
	now = func() time.Time {
		at = at.Add(2 * time.Millisecond)
		if tuned, _, _ := kernel.Tuned(); tuned.Name == fast {
			at = at.Add(-time.Millisecond)
		}
		return at
	}
	t.Cleanup(func() { setClock(time.Millisecond, 0) })
	r, err := measureChoices(context.Background(), quick(), nil, pack.Shape{M: 320, K: 256})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Kept(time.Now()); c.Tuning != fast {
		t.Errorf("chose %q, %s takes half of the time", c.Tuning, fast)
	}
	if still, _, _ := kernel.Tuned(); still.Name != usual.Name {
		t.Errorf("the tuning is %s", still.Name)
	}
}

// TestFastestTuning: the usual tuning stays where no other is worth it, or is noise.
func TestFastestTuning(t *testing.T) {
	row := func(median float64, noise bool) TuningRow {
		return TuningRow{Time: Quantity{Median: median}, Noise: noise}
	}
	for _, c := range []struct {
		rows []TuningRow
		want int
	}{
		{[]TuningRow{row(1, false), row(0.5, false), row(0.4, false)}, 2},
		{[]TuningRow{row(1, false), row(0.5, false), row(0.4, true)}, 1},
		{[]TuningRow{row(1, false), row(0.5, true)}, 0},
		{[]TuningRow{row(1, false), row(0.99, false)}, 0},
	} {
		if got := fastest(c.rows, 0); got != c.want {
			t.Errorf("%v: row %d, want %d", c.rows, got, c.want)
		}
	}
}

// TestMeasureChoicesNoise: what spreads too much to tell is noise, and is not kept; what is far from the limit is told.
func TestMeasureChoicesNoise(t *testing.T) {
	for _, c := range []struct {
		q    Quantity
		want bool
	}{{Quantity{1, 0.05}, false}, {Quantity{1, 0.2}, true}, {Quantity{2, 0.2}, false}, {Quantity{0.5, 0.2}, false},
		{Quantity{2, 0.8}, true}} {
		if got := undecided(c.q, 0.1); got != c.want {
			t.Errorf("%v: %v", c.q, got)
		}
	}
	lines := kernel.Thresholds()
	lines = lines[:min(2, len(lines))]
	r := &ChoicesReport{Tunings: []TuningRow{{Name: "ramps", Chosen: true, Noise: true}}}
	for i, line := range lines {
		r.Thresholds = append(r.Thresholds, ThresholdRow{Threshold: line, Noise: i > 0})
	}
	c := r.Kept(time.Now())
	if c.Tuning != "" || len(c.Thresholds) != min(1, len(lines)) {
		t.Errorf("%+v", c)
	}
	run := &choicesRun{kernelRun: &kernelRun{KernelOptions: &KernelOptions{Meter: quick()}}, report: *r}
	if err := run.noise(); !errors.Is(err, ErrNoise) {
		t.Error(err)
	}
}

// TestStandsFor: a layout without a line of its own stands for all others.
func TestStandsFor(t *testing.T) {
	one := kernel.Threshold{Way: kernel.VecLUT, ISA: kernel.AVX2}
	own := kernel.Threshold{Way: kernel.VecLUT, ISA: kernel.AVX2, Layout: "vnni4i"}
	if s, _ := standsFor(one, []kernel.Threshold{one}); s.Name != "vnni4i" {
		t.Error(s)
	}
	if s, _ := standsFor(one, []kernel.Threshold{own, one}); s.Name != "i2" {
		t.Error(s)
	}
	layout := kernel.Threshold{Way: kernel.OnTiles, ISA: kernel.AMX, Layout: "vnni4t", Group: 64}
	if s, group := standsFor(layout, nil); s.Name != "vnni4t" || group != 64 {
		t.Error(s, group)
	}
	groups := []int{}
	for _, g := range []int{0, 64, -1} {
		_, group := standsFor(kernel.Threshold{Way: kernel.OnTiles, ISA: kernel.AMX, Group: g}, nil)
		groups = append(groups, group)
	}
	if !slices.Equal(groups, []int{0, 64, 96}) {
		t.Error(groups)
	}
}
