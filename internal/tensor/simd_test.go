package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

const longest = 300 // lengths 0 … longest are tried

// TestElementwise compares every elementwise operation with its definition, at every length and on every kind of
// number.
func TestElementwise(t *testing.T) {
	type args struct {
		y, a, b, c []float32
		acc        []int32
		s          float32
	}
	ops := map[string]struct{ fast, slow func(x args) }{
		"ScaleRows": {func(x args) { ScaleRows(x.y, x.acc, x.a, x.s) },
			func(x args) { scaleRowsGo(x.y, x.acc, x.a, x.s) }},
		"ScaleAll": {func(x args) { ScaleAll(x.y, x.acc, 0.37, x.s) },
			func(x args) { scaleAllGo(x.y, x.acc, 0.37, x.s) }},
		"ScaleAdd":    {func(x args) { ScaleAdd(x.y, x.acc, x.a) }, func(x args) { scaleAddGo(x.y, x.acc, x.a) }},
		"ScaleAddAll": {func(x args) { ScaleAddAll(x.y, x.acc, x.s) }, func(x args) { scaleAddAllGo(x.y, x.acc, x.s) }},
		"ScaleAddBoth": {func(x args) { ScaleAddBoth(x.y, x.acc, x.a, x.s) },
			func(x args) { scaleAddBothGo(x.y, x.acc, x.a, x.s) }},
		"Add":       {func(x args) { Add(x.y, x.a) }, func(x args) { addGo(x.y, x.a) }},
		"Times":     {func(x args) { Times(x.y, x.s) }, func(x args) { timesGo(x.y, x.s) }},
		"Divide":    {func(x args) { Divide(x.y, x.a, x.s) }, func(x args) { divideGo(x.y, x.a, x.s) }},
		"SoftCaps":  {func(x args) { SoftCaps(x.y, 30) }, func(x args) { softCapGo(x.y, 30) }},
		"relu2":     {func(x args) { Relu2Gate(x.y, x.a, x.b) }, func(x args) { relu2Go(x.y, x.a, x.b) }},
		"silu":      {func(x args) { SiluGate(x.y, x.a, x.b) }, func(x args) { siluGo(x.y, x.a, x.b) }},
		"gelu_tanh": {func(x args) { GeluTanhGate(x.y, x.a, x.b) }, func(x args) { geluTanhGo(x.y, x.a, x.b) }},
		"silu in place": {func(x args) { copy(x.y, x.a); SiluGate(x.y, x.y, x.b) },
			func(x args) { siluGo(x.y, x.a, x.b) }},
	}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for name, op := range ops {
			for n := range longest + 1 {
				x := args{numbers(r, n+1), numbers(r, n), numbers(r, n), numbers(r, n), make([]int32, n),
					numbers(r, 1)[0]}
				for i := range x.acc {
					x.acc[i] = int32(r.Uint32()) >> r.IntN(32)
				}
				want := x
				want.y = clone(x.y)
				guard := x.y[n]
				x.y, want.y = x.y[:n:n+1], want.y[:n]
				op.fast(x)
				op.slow(want)
				if d := differ(x.y, want.y); d != "" {
					t.Fatalf("%s: %s", name, d)
				}
				if !same(x.y[:n+1][n], guard) {
					t.Fatalf("%s wrote beyond %d elements", name, n)
				}
			}
		}
	})
}

// TestReductions compares the sums and maxima with their definitions.
func TestReductions(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for n := 1; n <= longest; n++ {
			for _, x := range [][]float32{numbers(r, n), ordinary(r, n)} {
				var l lanes
				var b bits
				sumSquaresGo(&l, x)
				mean := fold(&l) / float32(n)
				maxAbsGo(&b, x)
				if got, want := MaxAbs(x), foldBits(&b); !same(got, want) {
					t.Fatalf("MaxAbs of %d: %v, want %v", n, got, want)
				}
				w, y, want := numbers(r, n), make([]float32, n), make([]float32, n)
				b = bits{}
				normalizeGo(&b, want, x, w, 1/float32(math.Sqrt(float64(mean+1e-5))))
				maxabs, finite := RMSNorm(y, x, w, 1e-5)
				if d := differ(y, want); d != "" || !same(maxabs, foldBits(&b)) || finite != IsFinite(mean) {
					t.Fatalf("RMSNorm: %s, maxabs %v, want %v, finite %v", d, maxabs, foldBits(&b), finite)
				}
				z := clone(x)
				l = lanes{}
				m := slices.Max(x)
				expSumGo(&l, x, m)
				sum := Softmax(z)
				if d := differ(z, x); d != "" || !same(sum, fold(&l)) {
					t.Fatalf("Softmax: %s, sum %v", d, sum)
				}
			}
		}
	})
}

// TestWeigh compares the weights of whole lanes of scores with their definition, for lanes above and below the scores.
func TestWeigh(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		for n := 0; n <= longest; n += Lanes {
			for _, c := range []float32{1, 0.125, -3} {
				var l [2]lanes
				copy(l[0][:], ordinary(r, Lanes))
				l[0][r.IntN(Lanes)] = []float32{float32(math.Inf(-1)), 50}[r.IntN(2)]
				copy(l[1][:], ordinary(r, Lanes))
				z := ordinary(r, n)
				want, wantZ := l, clone(z)
				weigh(&l, z, c)
				weighGo(&want, wantZ, c)
				if d := differ(z, wantZ); d != "" || l != want {
					t.Fatalf("%d scores times %v: %s, lanes %v, want %v", n, c, d, l, want)
				}
			}
		}
	})
}

// TestExpEverywhere compares the vector form of exp with Exp on floats of the whole line, NaN and infinities included:
// every 2039th, or every 509th with LOWPACK_LONG=1.
func TestExpEverywhere(t *testing.T) {
	inf := float32(math.Inf(1))
	edges := []float32{inf, -inf, float32(math.NaN()), 88, math.Nextafter32(88, inf), -87, math.Nextafter32(-87, -inf)}
	eachLevel(t, func(t *testing.T) {
		z, want, step := make([]float32, 4096), make([]float32, 4096), uint64(2039)
		if long.All {
			step = 509
		}
		for b := uint64(0); b < 1<<32; b += 4096 * step {
			for i := range z {
				z[i] = math.Float32frombits(uint32(b + uint64(i)*step))
			}
			copy(z, edges)
			for i := range z {
				want[i] = Exp(z[i] - 0)
			}
			var l lanes
			expSum(&l, z, 0)
			if d := differ(z, want); d != "" {
				t.Fatal(d)
			}
		}
	})
}

func TestQuantize(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for n := 1; n <= longest; n++ {
			for _, x := range [][]float32{numbers(r, n), ordinary(r, n), make([]float32, n), ties(r, n, 127)} {
				a := MaxAbs(x)
				got, want := make([]int8, n+1), make([]int8, n)
				got[n] = 77
				d, finite := Quantize(got, x, a)
				quantizeGo(want, x, 127/max(a, 1e-5))
				if !slices.Equal(got[:n], want) || got[n] != 77 || !finite || d != max(a, 1e-5)/127 {
					t.Fatalf("Quantize of %v: %v, want %v, step %v, finite %v", x, got, want, d, finite)
				}
			}
		}
		if _, finite := Quantize(make([]int8, 1), []float32{1}, float32(math.Inf(1))); finite {
			t.Error("an infinite vector is called finite")
		}
	})
}

// TestQuantizePlanes compares planes with codes of their own definition: their extremes, ties, every length.
func TestQuantizePlanes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 7))
		for n := 1; n <= longest; n++ {
			for _, x := range [][]float32{numbers(r, n), ordinary(r, n), make([]float32, n), ties(r, n, MaxCode16)} {
				h, l := make([]int8, n+1), make([]int8, n+1)
				h[n], l[n] = 77, 77
				a := max(MaxAbs(x), 1e-5)
				dh, dl, finite := QuantizePlanes(h, l, x, MaxAbs(x))
				if h[n] != 77 || l[n] != 77 || !finite || dl != a/32512 || dh != 255*(a/32512) {
					t.Fatalf("planes of %v: scales %v and %v, finite %v", x, dh, dl, finite)
				}
				for i, v := range x {
					want := int(min(max(math.RoundToEven(float64(float32(v*(32512/a)))), -32512), 32512))
					if got := 255*int(h[i]) + int(l[i]); got != want || min(h[i], l[i]) < -127 {
						t.Fatalf("%v of %v: planes %d and %d, want the code %d", v, x, h[i], l[i], want)
					}
				}
			}
		}
		one := make([]int8, 1)
		if _, _, finite := QuantizePlanes(one, one, []float32{1}, float32(math.Inf(1))); finite {
			t.Error("an infinite vector is called finite")
		}
	})
}

// TestPlanesOfAllCodes: all codes of 16 bits have planes of int8 that give them back.
func TestPlanesOfAllCodes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		const most = 32512
		x, h, l := make([]float32, 2*most+1), make([]int8, 2*most+1), make([]int8, 2*most+1)
		for i := range x {
			x[i] = float32(i - most)
		}
		if dh, dl, _ := QuantizePlanes(h, l, x, most); dh != 255 || dl != 1 {
			t.Errorf("scales %v and %v", dh, dl)
		}
		for i := range x {
			if got := 255*int(h[i]) + int(l[i]); got != i-most || min(h[i], l[i]) < -127 {
				t.Fatalf("code %d: planes %d and %d", i-most, h[i], l[i])
			}
		}
	})
}

// TestQuantizePlaneGroups compares groups with each of them alone.
func TestQuantizePlaneGroups(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 8))
		for n := 1; n <= longest; n++ {
			x, groups := ordinary(r, n), (n+31)/32
			h, l, wantH, wantL := make([]int8, n), make([]int8, n), make([]int8, n), make([]int8, n)
			dh, dl := make([]float32, groups), make([]float32, groups)
			QuantizePlaneGroups(h, l, dh, dl, x, 32)
			for g := range groups {
				lo, hi := 32*g, min(32*g+32, n)
				sh, sl, _ := QuantizePlanes(wantH[lo:hi], wantL[lo:hi], x[lo:hi], MaxAbs(x[lo:hi]))
				if sh != dh[g] || sl != dl[g] {
					t.Fatalf("group %d of %d columns: scales %v and %v, want %v and %v", g, n, dh[g], dl[g], sh, sl)
				}
			}
			if !slices.Equal(h, wantH) || !slices.Equal(l, wantL) {
				t.Fatalf("%d columns: planes %v and %v, want %v and %v", n, h, l, wantH, wantL)
			}
		}
	})
}

// TestQuantizeGroups compares groups, quantized together, with each of them alone: sizes of whole blocks and others,
// every length, the last group shorter or whole.
func TestQuantizeGroups(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, group := range []int{1, 16, 24, 32, 48, 64, 128, 256} {
			for n := 1; n <= longest; n++ {
				for _, x := range [][]float32{numbers(r, n), ordinary(r, n), make([]float32, n), ties(r, n, 127)} {
					groups := (n + group - 1) / group
					got, want := make([]int8, n+1), make([]int8, n)
					scales := make([]float32, groups+1)
					got[n], scales[groups] = 77, 77
					QuantizeGroups(got[:n], scales[:groups], x, group)
					for g := range groups {
						lo, hi := g*group, min((g+1)*group, n)
						a := float32(0)
						for _, v := range x[lo:hi] {
							a = max(a, v, -v)
						}
						quantizeGo(want[lo:hi], x[lo:hi], 127/max(a, 1e-5))
						if scales[g] != max(a, 1e-5)/127 {
							t.Fatalf("group %d of %d of %v has the scale %v", g, group, x, scales[g])
						}
					}
					if !slices.Equal(got[:n], want) || got[n] != 77 || scales[groups] != 77 {
						t.Fatalf("groups of %d of %v: %v, want %v", group, x, got, want)
					}
				}
			}
		}
	})
}

// ties gives vectors whose codes, the largest of which is most, are exactly half way between integers.
func ties(r *rand.Rand, n, most int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.IntN(2*most)-most) + 0.5
	}
	x[0] = float32(most)
	return x
}

func TestRotate(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for h := range 100 {
			x := numbers(r, 2*h+3)
			want := clone(x)
			rotation := Rotation{numbers(r, h), numbers(r, h)}
			y := numbers(r, len(x))
			rotation.Apply(y, x)
			rotation.Apply(x, x)
			rotateGo(want[:h], want[h:2*h], want[:h], want[h:2*h], rotation.Cos, rotation.Sin)
			if d := differ(x, want) + differ(y, want); d != "" {
				t.Fatalf("half dim %d: %s", h, d)
			}
		}
	})
}
