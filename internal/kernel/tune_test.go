package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// TestTunings: whatever is chosen, results are the same.
func TestTunings(t *testing.T) {
	defer func(was Tuning) { tuned = was }(tuned)
	r := rand.New(rand.NewPCG(47, 48))
	for _, spec := range specs(t) {
		if onlyUnpacked(spec) {
			continue
		}
		for i := range 10 {
			s, tokens := pack.Shape{M: 1 + r.IntN(400), K: 1 + r.IntN(700)}, 1+i*(i%2)
			c := blockCase{weights: []int{0, 32, 16, 64, 128}[i%5], activations: []int{64, 0, 32}[i%3], zero: i%3 > 0}
			whole, blocks := newProblem(t, spec, s, tokens, 0, r), newBlocks(t, spec, s, tokens, c, r)
			for _, tuned = range Tunings() {
				whole.check(t)
				blocks.check(t)
			}
		}
	}
}

// TestTunedPanels: one token takes two panels at a time if the tuning says so, and only then: on AVX-512 of all
// weights, on AVX2 of 4-bit and 8-bit weights, in panels of 32 rows. It takes four panels of 2-bit weights on AVX-512.
func TestTunedPanels(t *testing.T) {
	if Best() != AVX512VNNI && Best() != AVX2 {
		t.Skip("no kernels that take two panels")
	}
	narrow := []string{pack.Ternary.Name, pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}
	defer func(was Tuning) { tuned = was }(tuned)
	for _, tuned = range Tunings() {
		for _, spec := range specs(t) {
			l, err := pack.Open(spec)
			if err != nil {
				t.Fatal(err)
			}
			p, paneled := l.(pack.Paneled)
			if !paneled || onlyUnpacked(spec) || spec.Alphabet == pack.Int1.Name || spec.Name == "vnni4t" {
				continue
			}
			pr := newProblem(t, spec, pack.Shape{M: 4 * p.PanelRows(), K: 64}, 1, 0, rand.New(rand.NewPCG(1, 2)))
			w, err := Bind(l, pr.matrix.Shape, pr.packed, 0)
			if err != nil {
				t.Fatal(err)
			}
			two, four := tuned.Panels >= 2, tuned.Panels == 4 && slices.Contains(narrow, spec.Alphabet)
			if Best() == AVX2 {
				two, four = two && p.PanelRows() == 32 && !slices.Contains(narrow, spec.Alphabet), false
			}
			if tiled := multiplyAdd(w.product); tiled.two(1, false) != two || tiled.four(1) != four || tiled.four(2) {
				t.Errorf("%s: %v, %s", tuned.Name, w.Kernel, spec.Alphabet)
			}
			w.Close()
		}
	}
}

// TestFours: every number of panels up to twelve, and one that is not whole; columns of every tail, groups and scales,
// and the largest sums.
func TestFours(t *testing.T) {
	eachTwoBits(t, func(t *testing.T, spec pack.Spec, r *rand.Rand) {
		for m := 1; m <= 12*64; m += 31 {
			newProblem(t, spec, pack.Shape{M: m, K: 1 + r.IntN(100)}, 1, 0, r).checkTwoBits(t)
		}
		for i := range 8 {
			c := blockCase{weights: []int{32, 0, 64, 96}[i%4], activations: []int{0, 32, 96}[i%3], zero: i%2 > 0,
				extreme: i%4 == 1}
			checkBlocks(t, spec, pack.Shape{M: 256 + r.IntN(100), K: 97 + r.IntN(300)}, 1, c, r)
		}
		p := newProblem(t, spec, pack.Shape{M: 1, K: 1}, 1, 0, r)
		p.matrix, p.x = pack.NewMatrix(pack.Shape{M: 256, K: scaledMax},
			p.matrix.Alphabet), NewActivations(1, scaledMax)
		p.extremes(t)
		p.checkTwoBits(t)
	})
}

// multiplyAdd is the product that takes few tokens.
func multiplyAdd(p product) *tiled {
	if v, ok := p.(*vecLUT); ok {
		p = v.few
	}
	return p.(*tiled)
}

// TestTuneBy: the tuning with the fastest products is chosen, unless it hardly gains; without enough weights the
// table's tuning stays. Every byte is read once.
func TestTuneBy(t *testing.T) {
	defer func(was Tuning, why string) { tuned, tunedWhy = was, why }(tuned, tunedWhy)
	l, err := pack.Open(pack.Spec{Name: "vnni4i"})
	if err != nil {
		t.Fatal(err)
	}
	s := pack.Shape{M: 2048, K: 4096}
	size, err := l.PackedSize(s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Bind(l, s, make([]byte, size), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	enough := slices.Repeat([]*Weights{w}, tuneRounds*len(Tunings()))
	type costs map[string]time.Duration
	for _, c := range []struct {
		costs
		list []*Weights
		want string
	}{
		{costs{"one-stream": 100, "every-line": 85, "ramps": 80, "two-streams": 90}, enough, "ramps"},
		{costs{"one-stream": 100, "every-line": 70, "ramps": 80, "two-streams": 90}, enough, "every-line"},
		{costs{"one-stream": 100, "every-line": 95, "ramps": 90, "two-streams": 60}, enough, "two-streams"},
		{costs{"one-stream": 100, "every-line": 96, "ramps": 95, "two-streams": 200}, enough, "one-stream"},
		{costs{"one-stream": 100, "every-line": 60, "ramps": 50, "two-streams": 50}, enough[:2], "one-stream"},
	} {
		var clock time.Time
		tuneBy(c.list, func() time.Time {
			clock = clock.Add(c.costs[tuned.Name])
			return clock
		})
		if tuned.Name != c.want || tunedWhy == "" {
			t.Errorf("%v of %d matrices: %s, %s", c.costs, len(c.list), tuned.Name, tunedWhy)
		}
	}
	next, n := tuneSlices([]*Weights{w}), 0
	for _, ok := next(); ok; _, ok = next() {
		n++
	}
	// 1 of 2 MiB, more where codes are widened; the first panel serves to prepare
	if want := w.Bytes()/tuneBytes - 1; n != want {
		t.Errorf("%d slices of %d bytes in %d, want %d", n, tuneBytes, w.Bytes(), want)
	}
}

// TestTuneByKnown: what the table knows is not measured.
func TestTuneByKnown(t *testing.T) {
	if tunedWhy == unknownCPU {
		t.Skip("the table does not know this CPU")
	}
	was, _, why := Tuned()
	TuneBy(nil)
	if now, _, still := Tuned(); now.Name != was.Name || still != why {
		t.Errorf("%s, %s; it was %s, %s", now.Name, still, was.Name, why)
	}
}

func TestTuningOf(t *testing.T) {
	for _, c := range []struct {
		vendor    string
		signature uint32
		avx512    bool
		cpu, name string
	}{
		{"GenuineIntel", 0x000806F8, true, "GenuineIntel family 6 model 143", "ramps"},        // Sapphire Rapids
		{"GenuineIntel", 0x000C06F2, true, "GenuineIntel family 6 model 207", "ramps"},        // Emerald Rapids
		{"GenuineIntel", 0x00000F4A, false, "GenuineIntel family 15 model 4", "one-stream"},   // Pentium 4
		{"AuthenticAMD", 0x00A10F11, true, "AuthenticAMD family 25 model 17", "one-stream"},   // Zen 4
		{"AuthenticAMD", 0x00B00F21, true, "AuthenticAMD family 26 model 2", "every-line"},    // Zen 5, server
		{"AuthenticAMD", 0x00B10F10, true, "AuthenticAMD family 26 model 17", "every-line"},   // Zen 5c, server
		{"AuthenticAMD", 0x00B20F40, true, "AuthenticAMD family 26 model 36", "one-stream"},   // Zen 5, mobile
		{"AuthenticAMD", 0x00A00F11, false, "AuthenticAMD family 25 model 1", "two-streams"},  // Zen 3
		{"AuthenticAMD", 0x00830F10, false, "AuthenticAMD family 23 model 49", "two-streams"}, // Zen 2
		{"GenuineIntel", 0x000506E3, false, "GenuineIntel family 6 model 94", "ramps"},        // Skylake
		{"", 0, false, "", "one-stream"}, // an architecture without CPUID
		{"CentaurHauls", 0x000306F2, false, "CentaurHauls family 6 model 63", "one-stream"},
	} {
		cpu := cpuOf(c.signature)
		cpu.Vendor, cpu.AVX512 = c.vendor, c.avx512
		tuning, why := tuningOf(cpu)
		if fmt.Sprint(cpu) != c.cpu || tuning.Name != c.name || why == "" {
			t.Errorf("%#x: %v, %s", c.signature, cpu, tuning.Name)
		}
	}
}

// TestTunedTiles: a batch is multiplied in tiles of about the same size, none larger than the tuning says. Two panels
// at a time are taken where the tuning says so, and where a tile before has brought them into a cache. Tiles whose sums
// are scaled keep their results in registers.
func TestTunedTiles(t *testing.T) {
	if Best() != AVX512VNNI {
		t.Skip("no tiles of 12 tokens")
	}
	defer func(was Tuning) { tuned = was }(tuned)
	for _, c := range []struct {
		alphabet      string
		tuning        Tuning
		group, tokens int // without a group, sums are not scaled; tokens are too few for another way than tiles
		want          []string
	}{
		{pack.Int4.Name, oneStream, 0, 10, []string{"10"}},
		{pack.Int4.Name, oneStream, 0, 11, []string{"11"}},
		{pack.Int4.Name, ramps, 0, 11, []string{"5", "6"}},
		{pack.Ternary.Name, oneStream, 0, 11, []string{"5", "two panels, 6"}},
		{pack.Ternary.Name, ramps, 0, 11, []string{"two panels, 5", "two panels, 6"}},
		{pack.Int4.Name, oneStream, 32, 10, []string{"kept, 10"}},
		{pack.Int4.Name, oneStream, 32, 11, []string{"5", "6"}},
		{pack.Int4.Name, oneStream, 32, 13, []string{"6", "kept, 7"}},
		{pack.Int4.Name, everyLine, 0, 11, []string{"11"}},
		{pack.Int4.Name, everyLine, 32, 10, []string{"6", "4"}},
		{pack.Int4.Name, everyLine, 32, 13, []string{"6", "3", "4"}},
		{pack.Int8.Name, everyLine, 32, 10, []string{"10"}},
		{pack.Int8.Name, everyLine, 32, 20, []string{"12", "4", "4"}},
		{pack.Int4.Name, ramps, 32, 10, []string{"5", "5"}},
	} {
		tuned = c.tuning
		if got := tilesOf(t, c.alphabet, c.group, c.tokens); !slices.Equal(got, c.want) {
			t.Errorf("%s, %s, group %d, %d tokens: tiles of %q, want %q", tuned.Name, c.alphabet, c.group, c.tokens,
				got, c.want)
		}
	}
}

// TestFewTokens: products that memory takes longer than are prefetched as those of one token.
func TestFewTokens(t *testing.T) {
	if Best() != AVX512VNNI {
		t.Skip("no such kernels")
	}
	defer func(was Tuning) { tuned = was }(tuned)
	tuned = oneStream
	r := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		layout, alphabet string
		few              int
	}{
		{"vnni4", pack.Int8.Name, 4}, {"vnni4i", pack.Int4.Name, 2}, {"vnni4i", pack.E2M1.Name, 1},
		{"vnni4i", pack.Ternary.Name, 1}, {"vnni4p", pack.Int6.Name, 1},
	} {
		pr := newProblem(t, pack.Spec{Name: c.layout, Alphabet: c.alphabet}, pack.Shape{M: 64, K: 64}, 1, 0, r)
		w, err := Bind(pr.layout, pr.matrix.Shape, pr.packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := multiplyAdd(w.product)
		for tokens := 1; tokens <= asm.MaxTokens; tokens++ {
			want := tuned.batch
			if tokens <= c.few {
				want = tuned.vector
			}
			if got := p.prefetch(tokens); got != want {
				t.Errorf("%s %s, %d tokens: %+v, want %+v", c.layout, c.alphabet, tokens, got, want)
			}
		}
		w.Close()
	}
}

// TestTiling: tiles have every token of a batch once. But for the first one of scaled sums none has more than the
// tuning says, and sizes differ by one at most.
func TestTiling(t *testing.T) {
	defer func(was Tuning) { tuned = was }(tuned)
	list := make([]func(*asm.Tile), 12)
	for _, tuned = range Tunings() {
		for n := 1; n <= 200; n++ {
			for _, bytes := range []int{48, 64, 80, 96, 128} {
				for _, kept := range []int{0, 9, 10} {
					p := &tiled{family: family{columns: 4, funcs: list}, bytes: bytes, w: &Weights{rows: 32}}
					if kept > 0 {
						p.kept = list[:kept]
					}
					for _, scaled := range []bool{false, true} {
						p.checkTiling(t, n, scaled)
					}
				}
			}
		}
	}
}

func (p *tiled) checkTiling(t *testing.T, n int, scaled bool) {
	t.Helper()
	most := p.most(scaled)
	tokens := p.tiling(n, most, scaled)
	least, largest := n, 0
	for i := range tokens.tiles {
		size := tokens.before(i+1) - tokens.before(i)
		if first := size == min(n, tuned.Tokens) || size == min(n, most); i == 0 && tokens.first > 0 && first {
			continue
		}
		least, largest = min(least, size), max(largest, size)
	}
	if tokens.before(0) != 0 || tokens.before(tokens.tiles) != n || least == 0 || largest > min(most, least+1) {
		t.Errorf("%s, %d bytes, %d functions, scaled %v: %d tokens in tiles of %d to %d, the first %d",
			tuned.Name, p.bytes, len(p.kept), scaled, n, least, largest, tokens.first)
	}
}

// tilesOf returns the functions that multiply two panels, as tables and numbers of tokens. They multiply nothing.
func tilesOf(t *testing.T, alphabet string, group, tokens int) (tiles []string) {
	r := rand.New(rand.NewPCG(5, 6))
	spec := pack.Spec{Name: "vnni4i", Alphabet: alphabet}
	if alphabet == pack.Int8.Name {
		spec.Name = "vnni4"
	}
	pr := newProblem(t, spec, pack.Shape{M: 64, K: 64}, tokens, group, r)
	w, err := Bind(pr.layout, pr.matrix.Shape, pr.packed, group)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	record := func(list []func(*asm.Tile), what string) []func(*asm.Tile) {
		list = slices.Clone(list)
		for i := range list {
			if list[i] != nil {
				list[i] = func(*asm.Tile) { tiles = append(tiles, fmt.Sprint(what, i+1)) }
			}
		}
		return list
	}
	p := multiplyAdd(w.product)
	p.funcs, p.pairs, p.kept = record(p.funcs, ""), record(p.pairs, "two panels, "), record(p.kept, "kept, ")
	p.dense = denseFuncs{} // whose tiles are tested apart
	if group == 0 {
		w.Mul(make([]int32, tokens*64), 64, pr.x, 0, 2)
		return tiles
	}
	given, _ := randomUnits(64*w.Groups(), group, r)
	if err := w.Scale(given, plain); err != nil {
		t.Fatal(err)
	}
	w.MulScaled(make([]float32, tokens*64), 64, pr.x, 0, 2)
	return tiles
}
