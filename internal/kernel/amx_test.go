package kernel

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

// Tests of products on tile registers: what tests of all kernels leave out, as they take few tokens.

// tiledCase is a layout and an alphabet that are multiplied on tile registers.
type tiledCase struct {
	spec pack.Spec
	k    *Kernel
	r    *rand.Rand
	at   int // of this case among the others
	step int // run every step-th case of a test: more than 1 if the alphabet differs from another one only in a table
}

// modelled returns the step if a model executes the instructions, which takes a thousand times as long: cases omitted
// for one layout run for another.
func modelled() int {
	if os.Getenv(twin) == "" || long.All {
		return 1
	}
	return 3
}

// has reports whether the case takes part number i of a test.
func (c tiledCase) has(i int) bool { return (i+c.at)%c.step == 0 }

func eachTiled(t *testing.T, test func(t *testing.T, c tiledCase)) {
	if !Have(AMX) {
		t.Skip("no tile registers; TestTileRegisters runs this test with a model of them")
	}
	count := 0
	for _, spec := range specs(t) {
		k := For(spec)[0]
		if k.Layout != spec.Name || !strings.Contains(k.About, "tile registers") {
			continue
		}
		count++
		c := tiledCase{spec, k, rand.New(rand.NewPCG(51, uint64(count))), count, modelled()}
		if slices.Contains(tables4, spec.Alphabet) || slices.Contains(int2s, spec.Alphabet) {
			c.step *= 6
		}
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
	if count != 30 {
		t.Errorf("%d layouts with their alphabets", count)
	}
}

// TestMultiplier: what is multiplied without tile registers is not measured against them. Nothing is executed.
func TestMultiplier(t *testing.T) {
	at := slices.IndexFunc(kernels, func(k *Kernel) bool { return k.ISA == AMX })
	if at < 0 {
		t.Skip("no kernels for tile registers in this build")
	}
	amx := &Weights{Kernel: kernels[at], Shape: pack.Shape{M: 1, K: 1}, Group: 1}
	amx.product = &batches{tiled: &tiled{w: amx}, tokens: 6}
	for _, c := range []struct {
		w      *Weights
		tokens int
		want   ISA
	}{
		{amx, 6, AMX},
		{amx, 5, AVX512VNNI},
		{&Weights{Kernel: kernels[at], product: &tiled{}}, 128, AVX512VNNI},
		{&Weights{Kernel: generic, product: &tiled{}}, 128, Generic},
	} {
		if got := c.w.Multiplier(c.tokens); got != c.want {
			t.Errorf("%s, %T, %d tokens: %s, want %s", c.w.Kernel.ISA, c.w.product, c.tokens, got, c.want)
		}
	}
}

// check compares the kernel with the answer for a random matrix.
func (c tiledCase) check(t *testing.T, s pack.Shape, tokens, group int) {
	t.Helper()
	p := newProblem(t, c.spec, s, tokens, group, c.r)
	p.checkTiled(t, c.k)
}

func (p *problem) checkTiled(t *testing.T, k *Kernel) {
	t.Helper()
	w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, p.group)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, ok := w.product.(*batches); ok != (p.group == 0 || passKind(p.group) >= 0 || p.group >= amxGroup) {
		t.Fatalf("%v, shape %v, group %d: tile registers %v", k, p.matrix.Shape, p.group, ok)
	}
	p.compare(t, w)
	if p.group > 0 {
		p.compareScaled(t, w)
	}
}

// TestTiles: every number of tokens up to two pairs of tiles and more, and enough for them to be split; fewer columns
// than a tile has, as many tiles as the ring holds or one more or less, and more columns than are unpacked at a time.
func TestTiles(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		for n := 1 + c.at%c.step; n <= 66; n += c.step {
			c.check(t, pack.Shape{M: 1 + c.r.IntN(170), K: 1 + c.r.IntN(150)}, n, 0)
		}
		for i, k := range []int{64, amxRoomColumns - 1, amxRoomColumns, amxRoomColumns + 1, 2*amxRoomColumns + 68} {
			if c.has(i) {
				c.check(t, pack.Shape{M: 1 + c.r.IntN(170), K: k}, 12+7*i, 0)
			}
		}
		for tiles := 1; tiles <= 6; tiles++ {
			if c.has(tiles) {
				c.check(t, pack.Shape{M: 1 + c.r.IntN(170), K: 64*tiles + c.r.IntN(64)}, 6+c.r.IntN(36), 0)
			}
		}
		c.check(t, pack.Shape{M: 100, K: 20}, amxMostTokens+1+c.r.IntN(99), 0)
	})
}

// TestTilesGroups: groups of whole tiles and of others, of fewer columns than are unpacked at a time and of more.
func TestTilesGroups(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		for i, group := range []int{64, 96, 128, 208, 32, 256, amxRoomColumns + 64} {
			if c.has(i) {
				c.check(t, pack.Shape{M: 1 + c.r.IntN(170), K: group + 1 + c.r.IntN(3*group)}, 12+6*i, group)
			}
		}
		if c.step == 1 || c.at == 1 {
			c.check(t, pack.Shape{M: 90, K: 1200}, 160, 64) // more groups than there is room for sums
		}
	})
}

// TestTilesBlocks: scales of weights and of activations, and zero points.
func TestTilesBlocks(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		i := 0
		for _, weights := range []int{0, 32, 64, 128, 256} {
			for _, activations := range []int{0, 32, 64, 128} {
				if i++; c.has(i) {
					b := blockCase{weights: weights, activations: activations, zero: i%3 > 0, extreme: i%3 > 1}
					b.small = b.zero && i%2 > 0
					checkBlocks(t, c.spec, pack.Shape{M: 1 + c.r.IntN(170), K: 1 + c.r.IntN(600)}, 12+2*i, b, c.r)
				}
			}
		}
	})
}

// TestTilesScaled: groups that are scaled beside tiles, with small zero points and without; columns that end in every
// part of a pass, and tokens that fill one pair of tiles, a part of one, and more than are multiplied at a time. Each
// matrix multiplies two batches.
func TestTilesScaled(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		for i, pass := range tilePasses {
			group := pass.group
			for j, k := range []int{group + 1, 2*amxGroupColumns - 96, 2 * amxGroupColumns, 3*amxGroupColumns + 4} {
				if !c.has(i + j) {
					continue
				}
				b := blockCase{weights: group, activations: []int{0, 64, 128}[c.r.IntN(3)], zero: (i+j)%2 > 0}
				b.small = b.zero
				if c.spec.Alphabet == pack.Int8.Name { // multiplied where it lies
					b.zero, k = false, (3+j%2)*pass.columns
				}
				tokens := []int{leastOnTiles(group), 31 + c.r.IntN(4), amxGroupBlock + 1}[(i+j)%3]
				problem := newBlocks(t, c.spec, pack.Shape{M: 32 + c.r.IntN(100), K: k}, tokens, b, c.r)
				problem.check(t)
				for n := range tokens { // the next batch
					for i := range problem.rows.Row(n) {
						problem.rows.Row(n)[i] = int8(c.r.IntN(255) - 127)
					}
					copy(problem.rows.Scales(n), randomScales(len(problem.rows.Scales(n)), c.r))
				}
				problem.rows.Finish()
				problem.answer(group, ceilDiv(k, group))
				problem.check(t)
			}
		}
	})
}

// TestTilesFew: groups that up to eight tokens are multiplied by, whatever the thresholds; scales of weights, of
// activations and of both, zero points, and columns that end in every part of a step.
func TestTilesFew(t *testing.T) {
	was := inForce
	t.Cleanup(func() { inForce = was })
	inForce = slices.Clone(was)
	for i := range inForce {
		if inForce[i].Way == OnTiles {
			inForce[i].Tokens = 1
		}
	}
	eachTiled(t, func(t *testing.T, c tiledCase) {
		for i, pass := range tilePasses {
			for tokens := 1; tokens <= asm.AMXFew; tokens++ {
				if !c.has(i + tokens) {
					continue
				}
				b := blockCase{weights: pass.group, activations: []int{0, 64, 128}[c.r.IntN(3)], zero: tokens%2 > 0,
					extreme: tokens%4 == 3}
				if tokens%5 == 0 {
					b.weights, b.activations = 0, pass.group
				}
				k := pass.group + 1 + c.r.IntN(4*pass.group+300)
				checkBlocks(t, c.spec, pack.Shape{M: 1 + c.r.IntN(170), K: k}, tokens, b, c.r)
			}
		}
	})
}

// leastOnTiles is the number of tokens from which groups of some columns are scaled beside tiles.
func leastOnTiles(group int) int {
	return tokensFrom(OnTiles, AMX, pack.Spec{Name: "vnni4i"}, group)
}

// TestTilesScaledFences puts everything that groups are scaled with next to inaccessible memory.
func TestTilesScaledFences(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		fences := newScaledFences(t)
		for i, pass := range tilePasses {
			for j, tokens := range []int{leastOnTiles(pass.group), 33} {
				if !c.has(i + j) {
					continue
				}
				k := pass.group + 1 + c.r.IntN(700-pass.group)
				if c.spec.Alphabet == pack.Int8.Name {
					k = (2 + j) * pass.columns
				}
				p := newProblem(t, c.spec, pack.Shape{M: 32 + c.r.IntN(33), K: k}, tokens, pass.group, c.r)
				fences.check(t, p, []*Kernel{c.k}, (i+j)%2 > 0, c.r)
			}
		}
	})
}

// TestTilesCalls: calls of one panel each give the same results as calls of many.
func TestTilesCalls(t *testing.T) {
	defer func(n int) { amxGroupCall = n }(amxGroupCall)
	amxGroupCall = 1
	if !Have(AMX) {
		t.Skip("no tile registers; TestTileRegisters runs this test with a model of them")
	}
	r := rand.New(rand.NewPCG(55, 56))
	b := blockCase{weights: 128, activations: 64, zero: true, small: true}
	checkBlocks(t, pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name}, pack.Shape{M: 200, K: 300}, 40, b, r)
}

// TestTilesPassed: which sums are scaled beside tiles.
func TestTilesPassed(t *testing.T) {
	for _, c := range []struct {
		k, group, tokens, zero int
		direct, want           bool
	}{
		{k: 256, group: 64, tokens: 8, want: true},
		{k: 256, group: 64, tokens: 7},
		{k: 256, group: 256, tokens: 32},
		{k: 256, group: 96, tokens: 32},
		{k: 300, group: 32, tokens: 32, want: true},
		{k: 300, group: 64, tokens: 32, direct: true, want: true},
		{k: 256, group: 64, tokens: 32, zero: 119, want: true},
		{k: 256, group: 64, tokens: 32, zero: 120},
		{k: 256, group: 64, tokens: 32, zero: 1, direct: true},
		{k: 256, group: 64, tokens: 8, zero: 120, want: true},
		{k: 256, group: 64, tokens: 8, zero: 1, direct: true, want: true},
	} {
		w := &Weights{Shape: pack.Shape{M: 32, K: c.k}, Group: c.group, scaling: &scaling{most: c.zero}}
		if c.zero > 0 {
			w.scaling.zeros = make([]int8, 1)
		}
		p := &batches{tiled: &tiled{w: w}, beside: 8, opener: opener{direct: c.direct}, most: 8}
		if got := p.scalesOnTiles(call{t1: c.tokens, scaled: true}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestTilesExtremes: the largest sums that there are.
func TestTilesExtremes(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		for i, s := range []pack.Shape{{M: 81, K: 780}, {M: 9, K: 1 << 16}} {
			if i > 0 && !c.has(i) {
				continue
			}
			p := newProblem(t, c.spec, pack.Shape{M: 1, K: 1}, 1, 0, c.r)
			p.matrix, p.x = pack.NewMatrix(s, p.matrix.Alphabet), NewActivations(13, s.K)
			p.extremes(t)
			p.checkTiled(t, c.k)
		}
	})
}

// TestTilesFences puts packed bytes, results and activations next to inaccessible memory.
func TestTilesFences(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		packed, results, rows := fence.New(t, 64<<10), fence.New(t, 64<<10), fence.New(t, 64<<10)
		for i := 0; i < 24; i += min(c.step, 6) {
			p := newProblem(t, c.spec, pack.Shape{M: 1 + c.r.IntN(100), K: 1 + c.r.IntN(400)}, 6+2*i, 0, c.r)
			place, placeRows, placeResults := fence.Tail[byte], fence.Tail[int8], fence.Tail[int32]
			if i/min(c.step, 6)%2 == 1 {
				place, placeRows, placeResults = fence.Head[byte], fence.Head[int8], fence.Head[int32]
			}
			here, x := place(packed, len(p.packed)), placeRows(rows, len(p.x.rows))
			copy(here, p.packed)
			copy(x, p.x.rows)
			p.x.rows = x
			w, err := BindWith(c.k, p.layout, p.matrix.Shape, here, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := placeResults(results, len(p.want))
			w.Mul(got, p.matrix.M, p.x, 0, w.Panels())
			if !slices.Equal(got, p.want) {
				t.Fatalf("%v, alphabet %s, shape %v, %d tokens: wrong results", c.k, c.spec.Alphabet,
					p.matrix.Shape, p.x.N)
			}
			w.Close()
			packed.Check(t)
			results.Check(t)
			rows.Check(t)
		}
	})
}

// TestTilesPasses: columns that are whole tiles and fill no pass, next to inaccessible memory.
func TestTilesPasses(t *testing.T) {
	eachTiled(t, func(t *testing.T, c tiledCase) {
		fences := newScaledFences(t)
		for i, k := range []int{64, 192, 320} {
			for _, group := range []int{32, 64, 128, 256} {
				if group < k && c.has(i) {
					p := newProblem(t, c.spec, pack.Shape{M: 192, K: k}, 12+c.r.IntN(40), group, c.r)
					fences.check(t, p, []*Kernel{c.k}, false, c.r)
				}
			}
		}
	})
}

// TestTilesInParallel: each thread has tile registers of its own, and the collector sees what calls are given.
func TestTilesInParallel(t *testing.T) {
	pool := NewPool(3)
	t.Cleanup(pool.Close)
	var turn sync.Mutex
	eachTiled(t, func(t *testing.T, c tiledCase) {
		p := newProblem(t, c.spec, pack.Shape{M: 260, K: 100}, 40, 0, c.r)
		w, err := BindWith(c.k, p.layout, p.matrix.Shape, p.packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		turn.Lock()
		defer turn.Unlock()
		for range 3 {
			task, collected := &tiledTask{w, p.x, make([]int32, len(p.want))}, make(chan bool)
			go func() {
				runtime.GC()
				close(collected)
			}()
			pool.Run(w.Panels(), 1, task)
			<-collected
			if !slices.Equal(task.y, p.want) {
				t.Fatalf("%v, alphabet %s: wrong results", c.k, c.spec.Alphabet)
			}
		}
	})
}

type tiledTask struct {
	w *Weights
	x *Activations
	y []int32
}

func (k *tiledTask) Do(from, to int) { k.w.Mul(k.y, k.w.Shape.M, k.x, from, to) }

// TestTilesAllocateNothing: prefill must not create garbage.
func TestTilesAllocateNothing(t *testing.T) {
	if !Have(AMX) {
		t.Skip("no tile registers; TestTileRegisters runs this test with a model of them")
	}
	r := rand.New(rand.NewPCG(53, 54))
	p := newProblem(t, pack.Spec{Name: "vnni4i"}, pack.Shape{M: 80, K: 200}, 20, 64, r)
	w, x := p.blocksZero(t, For(p.layout.Spec())[0], p.packed, plain, 8, r)
	defer w.Close()
	y, z := make([]int32, len(p.want)), make([]float32, len(p.want))
	if n := testing.AllocsPerRun(5, func() {
		w.Mul(y, 80, x, 0, w.Panels())
		w.MulScaled(z, 80, x, 0, w.Panels())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
