package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/pack"
)

// eachTwoBits runs a test with both layouts of two-bit weights and an alphabet of each function of AVX-512, under the
// tuning of Intel, which uses dense tiles and takes four panels at a time.
func eachTwoBits(t *testing.T, test func(t *testing.T, spec pack.Spec, r *rand.Rand)) {
	if !Have(AVX512VNNI) {
		t.Skip("no AVX-512 VNNI on this CPU")
	}
	defer func(was Tuning) { tuned = was }(tuned)
	tuned = ramps
	count := 0
	for _, name := range []string{"vnni4i", "vnni4i-64"} {
		for _, alphabet := range []string{pack.Ternary.Name, pack.Int2Odd.Name} {
			count++
			t.Run(name+"/"+alphabet, func(t *testing.T) {
				test(t, pack.Spec{Name: name, Alphabet: alphabet}, rand.New(rand.NewPCG(61, uint64(count))))
			})
		}
	}
}

// kernelAVX512 returns the AVX-512 kernel, which a kernel for tile registers may precede.
func kernelAVX512(t *testing.T, l pack.Layout) *Kernel {
	list := For(l.Spec())
	at := slices.IndexFunc(list, func(k *Kernel) bool { return k.ISA == AVX512VNNI })
	if at < 0 {
		t.Fatal("no kernel")
	}
	return list[at]
}

// checkTwoBits compares the products of the kernel of AVX-512 with the answer.
func (p *problem) checkTwoBits(t *testing.T) {
	t.Helper()
	w, err := BindWith(kernelAVX512(t, p.layout), p.layout, p.matrix.Shape, p.packed, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p.compare(t, w)
}

// TestDenseTiles: every number of tokens up to eight tiles; rows that leave a panel, or some rows of one; columns of
// every remainder by four, and two.
func TestDenseTiles(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for n := 1; n <= 48; n++ {
			newProblem(t, spec, pack.Shape{M: 1 + r.IntN(300), K: 1 + r.IntN(150)}, n, 0, r).checkTwoBits(t)
		}
	})
}

// TestDenseRuns: columns in one run and in several, tokens in one block and in several.
func TestDenseRuns(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for _, c := range []struct{ k, tokens int }{
			{denseColumns, 13}, {denseColumns + 1, 19}, {2*denseColumns + 5, 14}, {denseColumns + 12, 6*denseTiles + 1},
			{blockBytes / 100, 130},
		} {
			newProblem(t, spec, pack.Shape{M: 65 + r.IntN(30), K: c.k}, c.tokens, 0, r).checkTwoBits(t)
		}
		newProblem(t, spec, pack.Shape{M: 130, K: denseColumns + 40}, 13, 0, r).checkTwoBits(t)
	})
}

// TestDenseScaled: zero points, scales of weights and of activations, of whole rows.
func TestDenseScaled(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for i := range 12 {
			s := pack.Shape{M: 1 + r.IntN(200), K: 1 + r.IntN(300)}
			if i == 7 {
				s = pack.Shape{M: 70, K: denseColumns + 7}
			}
			c := blockCase{weights: s.K * (i % 2), activations: s.K * (1 - i%3/2), zero: i%4 < 2, extreme: i%4 == 1}
			checkBlocks(t, spec, s, 13+i, c, r)
		}
	})
}

// TestDenseExtremes: the largest sums that there are, of as many columns as the kernel takes.
func TestDenseExtremes(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for _, s := range []pack.Shape{{M: 130, K: 780}, {M: 65, K: scaledMax}} {
			p := newProblem(t, spec, pack.Shape{M: 1, K: 1}, 1, 0, r)
			p.matrix, p.x = pack.NewMatrix(s, p.matrix.Alphabet), NewActivations(13, s.K)
			p.extremes(t)
			p.checkTwoBits(t)
		}
	})
}

// TestDenseFences puts packed bytes, results and activations next to inaccessible memory.
func TestDenseFences(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		packed, results, rows := fence.New(t, 64<<10), fence.New(t, 64<<10), fence.New(t, 64<<10)
		for i := range 12 {
			p := newProblem(t, spec, pack.Shape{M: 1 + r.IntN(200), K: 1 + r.IntN(200)}, 13+2*i, 0, r)
			place, placeRows, placeResults := fence.Tail[byte], fence.Tail[int8], fence.Tail[int32]
			if i%2 == 1 {
				place, placeRows, placeResults = fence.Head[byte], fence.Head[int8], fence.Head[int32]
			}
			here, x := place(packed, len(p.packed)), placeRows(rows, len(p.x.rows))
			copy(here, p.packed)
			copy(x, p.x.rows)
			p.x.rows = x
			w, err := BindWith(kernelAVX512(t, p.layout), p.layout, p.matrix.Shape, here, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := placeResults(results, len(p.want))
			w.Mul(got, p.matrix.M, p.x, 0, w.Panels())
			if !slices.Equal(got, p.want) {
				t.Fatalf("shape %v, %d tokens: wrong results", p.matrix.Shape, p.x.N)
			}
			w.Close()
			packed.Check(t)
			results.Check(t)
			rows.Check(t)
		}
	})
}

// TestDense: weights are unpacked once only if the tuning says so, for many tokens and whole rows; and then nothing is
// allocated.
func TestDense(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for _, group := range []int{0, 64} {
			p := newProblem(t, spec, pack.Shape{M: 200, K: 100}, 40, group, r)
			w, err := BindWith(kernelAVX512(t, p.layout), p.layout, p.matrix.Shape, p.packed, group)
			if err != nil {
				t.Fatal(err)
			}
			for _, tuned = range Tunings() {
				for _, tokens := range []int{1, ramps.dense - 1, ramps.dense, 40} {
					want := tuned.Name == ramps.Name && group == 0 && tokens >= ramps.dense
					if got := w.product.(*tiled).isDense(tokens); got != want {
						t.Errorf("%s, group %d, %d tokens: %v", tuned.Name, group, tokens, got)
					}
				}
			}
			tuned = ramps
			y := make([]int32, len(p.want))
			if n := testing.AllocsPerRun(5, func() { w.Mul(y, 200, p.x, 0, w.Panels()) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			w.Close()
		}
	})
}
