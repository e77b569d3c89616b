package calibrate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFactor: L·Lᵀ is the matrix, bit-identical for any number of threads; a matrix that is not positive definite is
// refused.
func TestFactor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	for _, n := range []int{1, 5, 64, 65, 150} {
		x := make([]float64, (n+9)*n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		a := product(x, n)
		factored := func(threads int) (triangle, error) {
			l := triangle{n, make([]float64, n*n)}
			for i := range n {
				copy(l.row(i), a[i*n:])
			}
			return l, l.factor(context.Background(), threads)
		}
		got, err := factored(1)
		if err != nil {
			t.Fatal(n, err)
		}
		if more, err := factored(3); err != nil || !slices.Equal(got.h, more.h) {
			t.Errorf("%d: 3 threads give other bits than 1: %v", n, err)
		}
		for i := range n {
			for j := range i + 1 {
				sum := 0.0
				for k := range j + 1 {
					sum += got.at(i, k) * got.at(j, k)
				}
				if math.Abs(sum-a[i*n+j]) > 1e-10*float64(n) {
					t.Fatalf("%d: element %d, %d of L·Lᵀ is %v; want %v", n, i, j, sum, a[i*n+j])
				}
			}
			for j := range i {
				if below := got.h[i*n+j]; below != 0 {
					t.Fatalf("%d: below the diagonal, element %d, %d has become %v", n, i, j, below)
				}
			}
		}
		a[n*n-1] = -1
		if _, err := factored(2); err == nil {
			t.Errorf("%d: a negative pivot passes", n)
		}
	}
}

// product is xᵀ·x.
func product(x []float64, n int) []float64 {
	a := make([]float64, n*n)
	for t := 0; t < len(x); t += n {
		for i := range n {
			for j := range n {
				a[i*n+j] += x[t+i] * x[t+j]
			}
		}
	}
	return a
}

// TestGram: sums of products of vectors times their factors, for any number of vectors and any number of threads.
func TestGram(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, count := range []int{1, 16, 37, 2*gramTokens + 5} {
		const n = 75
		x, exact := make([]float32, count*n), make([]float32, count*n)
		for i := range x {
			x[i], exact[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		v := vectors{n: n, x: x, exact: exact, factors: make([]float32, count)}
		for t := range v.factors {
			v.factors[t] = float32(t%3) + 0.5
		}
		h, c, err := v.grams(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		h3, c3, err := v.grams(context.Background(), 3)
		if err != nil || !slices.Equal(h, h3) || !slices.Equal(c, c3) {
			t.Errorf("%d vectors: 3 threads give other bits than 1: %v", count, err)
		}
		for i := range n {
			for j := range n {
				var square, cross float64
				for t := 0; t < len(x); t += n {
					f := math.Pow(float64(v.factors[t/n]), 2)
					square += f * float64(x[t+i]) * float64(x[t+j])
					cross += f * float64(x[t+i]) * (float64(exact[t+j]) - float64(x[t+j]))
				}
				if most := 5e-5 * float64(count); j <= i && math.Abs(h[i*n+j]-square) > most ||
					math.Abs(c[i*n+j]-cross) > most {
					t.Fatalf("%d vectors: elements %d, %d are %v and %v; want %v and %v", count, i, j,
						h[i*n+j], c[i*n+j],
						square, cross)
				}
			}
		}
	}
}

// TestFeedback: the codes equal those of GPTQ as published (arXiv 2210.17323, algorithm 1), which propagates the errors
// of a column at once to the following columns, by the Cholesky factor of the inverse Gram matrix. Their weighted error
// is smaller than with round-to-nearest.
func TestFeedback(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 10))
	const n, rows = 48, 20
	x := make([]float64, 3*n*n)
	for i := range x {
		x[i] = r.NormFloat64() * (0.2 + float64(i%n%7)) // columns count differently
		if i%n > 0 {
			x[i] += 0.8 * x[i-1] // and are correlated
		}
	}
	h := product(x, n)
	w := make([]float32, rows*n)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	const scale = 0.4
	nearest := func(value float32) (int8, float32) {
		c := max(-8, min(7, math.RoundToEven(float64(value)/scale)))
		return int8(c), float32(c * scale)
	}
	f, _, err := newFeedback(context.Background(), 2, slices.Clone(h), n)
	if err != nil {
		t.Fatal(err)
	}
	for k, weight := range f.weights {
		if weight != float32(h[k*n+k]) {
			t.Errorf("column %d counts %v in the search for scales; its Gram element is %v", k, weight, h[k*n+k])
		}
	}
	codes, values, again := make([]int8, len(w)), make([]float32, len(w)), make([]float32, len(w))
	f.codes(codes, w, again, func(_, _ int, value float32) (int8, float32) { return nearest(value) })
	f.sweeps = 0
	f.codes(codes, w, values, func(_, _ int, value float32) (int8, float32) { return nearest(value) })
	want := published(w, h, n, func(v float64) float64 { _, x := nearest(float32(v)); return float64(x) })
	if !slices.Equal(values, want) {
		t.Error("other codes than those of the published algorithm")
	}
	var fed, near, swept float64
	for m := range rows {
		plain := make([]float32, n)
		for k := range n {
			_, plain[k] = nearest(w[m*n+k])
		}
		fed += missed(w[m*n:][:n], values[m*n:][:n], h)
		swept += missed(w[m*n:][:n], again[m*n:][:n], h)
		near += missed(w[m*n:][:n], plain, h)
	}
	if fed > 0.6*near || swept > 0.99*fed {
		t.Errorf("products miss %g with error feedback, %g with the nearest codes, %g after sweeps", fed, near, swept)
	}
}

// missed is eᵀ·H·e of the errors of a row.
func missed(w, values []float32, h []float64) (sum float64) {
	for i := range w {
		for j := range w {
			sum += float64(w[i]-values[i]) * h[i*len(w)+j] * float64(w[j]-values[j])
		}
	}
	return sum
}

// published is GPTQ with act-order, damping by 30 % of each column, and settled scales, in float64.
func published(w []float32, h []float64, n int, round func(float64) float64) []float32 {
	order := make([]int, n)
	for i := range n {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if h[i*n+i] > h[j*n+j] {
			return -1
		}
		return 1
	})
	a := make([][]float64, n)
	for i := range n {
		a[i] = make([]float64, 2*n)
		for j := range n {
			a[i][j] = h[order[i]*n+order[j]]
		}
		a[i][i] += 0.3 * a[i][i]
		a[i][n+i] = 1
	}
	for p := range n { // Gauss and Jordan
		pivot := a[p][p]
		for j := range 2 * n {
			a[p][j] /= pivot
		}
		for i := range n {
			if factor := a[i][p]; i != p {
				for j := range 2 * n {
					a[i][j] -= factor * a[p][j]
				}
			}
		}
	}
	u := make([][]float64, n) // upper: inverse = uᵀ·u
	for i := range n {
		u[i] = make([]float64, n)
		for j := i; j < n; j++ {
			sum := a[i][n+j]
			for k := range i {
				sum -= u[k][i] * u[k][j]
			}
			if u[i][j] = sum / u[i][i]; j == i {
				u[i][j] = math.Sqrt(sum)
			}
		}
	}
	values := make([]float32, len(w))
	for m := range len(w) / n {
		row := make([]float64, n)
		for i, k := range order {
			row[i] = float64(w[m*n+k])
		}
		for i, k := range order {
			v := round(row[i])
			values[m*n+k] = float32(v)
			e := (row[i] - v) / u[i][i]
			for j := i; j < n; j++ {
				row[j] -= e * u[i][j]
			}
		}
	}
	return values
}
