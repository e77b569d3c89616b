package calibrate

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/pack"
)

// TestTarget: moved weights reproduce the products of the original weights and inputs halfway to the exact ones from
// inputs with correlated errors, up to errors that are not linear, and any other move is worse.
func TestTarget(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 20))
	const n, rows, count = 24, 3, 700
	exact, x := make([]float32, count*n), make([]float32, count*n)
	for i := range exact {
		exact[i] = float32(r.NormFloat64())
	}
	for i := range x {
		x[i] = 0.9*exact[i] + 0.2*exact[i/n*n+(i+1)%n] + 0.01*float32(r.NormFloat64())
	}
	w := make([]float32, rows*n)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	v := vectors{n: n, x: x, exact: exact}
	h, _, err := v.grams(context.Background(), 2)
	if err != nil {
		t.Fatal(err)
	}
	to, err := newTarget(context.Background(), 2, v)
	if err != nil {
		t.Fatal(err)
	}
	moved := slices.Clone(w)
	to.move(moved)
	// Σ (w·(x + trust·(exact − x)) − v·x)², plus the square of each move times the damping of the diagonal
	cost := func(v []float32) (sum float64) {
		for m := range rows {
			for i := range count {
				miss := 0.0
				for k := range n {
					want := float64(x[i*n+k]) + trust*(float64(exact[i*n+k])-float64(x[i*n+k]))
					miss += float64(w[m*n+k])*want - float64(v[m*n+k])*float64(x[i*n+k])
				}
				sum += miss * miss
			}
			for k := range n {
				d := float64(v[m*n+k]) - float64(w[m*n+k])
				sum += damping * h[k*n+k] * d * d
			}
		}
		return sum
	}
	least := cost(moved)
	if before := cost(w); least > before/3 {
		t.Errorf("products miss %g, without a move %g", least, before)
	}
	for i := range moved {
		for _, d := range []float32{-0.01, 0.01} {
			moved[i] += d
			if other := cost(moved); other <= least {
				t.Errorf("weight %d moved by another %g: products miss %g, %g without", i, d, other, least)
			}
			moved[i] -= d
		}
	}
}

// hostileInputs are what a layer multiplies: correlated columns of very different size, among them zeros and columns
// that are not zero in one vector alone, and errors of other sizes.
func hostileInputs(r *rand.Rand, count, n int) (x, exact []float32) {
	x, exact = make([]float32, count*n), make([]float32, count*n)
	for i := range x {
		k, at := i%n, i/n
		switch {
		case k%7 == 3 && at != k || k%11 == 5:
		case k%7 == 3:
			x[i] = 1e-4
		default:
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(k%13)-6))
			if k > 0 && k%3 == 0 {
				x[i] += 0.9 * x[i-1]
			}
		}
		exact[i] = x[i] + float32(0.3*r.NormFloat64()*math.Exp2(float64(k%5)))
	}
	return x, exact
}

// hostileRow has weights of one of some kinds: normal ones, outliers, constants, zeros, few values, tiny ones.
func hostileRow(r *rand.Rand, w []float32, kind int) {
	for i := range w {
		v := float32(r.NormFloat64())
		w[i] = []float32{v, v, 0.375, 0, float32(r.IntN(3) - 1), v * 1e-30, v * 1e4}[kind]
	}
	if kind == 1 {
		w[r.IntN(len(w))] = 300
	}
}

// TestChoose: whatever weights and inputs are, no row misses its weights by more than 8 times what the nearest codes
// miss, which is what verify demands of a file (N38); some rows would without a bound.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 21))
	const n, rows = 96, 28
	strayed := 0
	for _, c := range []struct {
		rule  string
		group int
	}{{"int2", 0}, {"int2", 32}, {"int3", 0}, {"int3", 32}, {"int4", 0}, {"int4", 16}, {"int6", 64}, {"mxfp4", 32},
		{"iq4nl", 0}, {"iq4nl", 32},
		{"absmax", 0}, {"absmax", 32}} {
		x, exact := hostileInputs(r, 40, n)
		to, err := newTarget(context.Background(), 2, vectors{n: n, x: x, exact: exact})
		if err != nil {
			t.Fatal(err)
		}
		job := quantize.Job{Rule: c.rule, DType: quantize.F32, Shape: pack.Shape{M: rows, K: n}, Kind: quantize.PerRow,
			Columns: to.weights}
		if c.group > 0 {
			job.Kind, job.Group = quantize.PerGroup, c.group
		}
		z, err := quantize.New(job)
		if err != nil {
			t.Fatal(err)
		}
		w := make([]float32, rows*n)
		for m := range rows {
			hostileRow(r, w[m*n:][:n], m%7)
		}
		before, codes, values := slices.Clone(w), make([]int8, len(w)), make([]float32, len(w))
		if err := to.choose(z, between(0, rows), codes, w, values); err != nil {
			t.Fatal(c, err)
		}
		if !slices.Equal(w, before) {
			t.Fatal(c, "the weights are changed")
		}
		if strayed += checkMissed(t, z, codes, w, values); t.Failed() {
			t.Fatal(c)
		}
	}
	if strayed == 0 {
		t.Error("no row has the nearest codes: nothing strays")
	}
}

// checkMissed holds codes and values of all rows against the bound, and counts rows of nearest codes.
func checkMissed(t *testing.T, z *quantize.Quantizer, codes []int8, w, values []float32) (same int) {
	scales, n := z.Scales(), 96
	perRow := len(scales) * n / len(w)
	_, group := z.Kind()
	if group == 0 {
		group = n
	}
	for m := 0; m < len(w); m += n {
		var missed, least float64
		for i := m; i < m+n; i++ {
			s := scales[m/n*perRow+(i-m)/group]
			nearest, _ := z.Nearest(m/n, i-m, w[i])
			missed += math.Pow(float64(w[i])-float64(s)*float64(codes[i]), 2)
			least += math.Pow(float64(w[i])-float64(s)*float64(nearest), 2)
			if values[i] != s*float32(codes[i]) {
				t.Errorf("row %d: code %d of scale %v stands for %v", m/n, codes[i], s, values[i])
			}
		}
		if missed > 64*least {
			t.Errorf("row %d misses %g, the nearest codes %g", m/n, missed, least)
		}
		if missed == least && least > 0 {
			same++
		}
	}
	return same
}

// TestTargetMemory: a target has 16 bytes per pair of columns. To make it takes 16 more, of which 8 are gone before the
// last 12 are needed.
func TestTargetMemory(t *testing.T) {
	const n, count = 2048, 40
	x, exact := make([]float32, count*n), make([]float32, count*n)
	for i := range x {
		x[i], exact[i] = float32(i%7), float32(i%5)
	}
	var before, after runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	to, err := newTarget(context.Background(), 2, vectors{n: n, x: x, exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const pairs, small = n * n, 10 << 20
	if left := after.HeapAlloc - before.HeapAlloc; left > 16*pairs+small {
		t.Errorf("%d bytes per pair of columns are left, not 16", left/pairs)
	}
	if all := after.TotalAlloc - before.TotalAlloc; all > 32*pairs+2*small {
		t.Errorf("%d bytes per pair of columns were allocated, not 32", all/pairs)
	}
	runtime.KeepAlive(to)
}
