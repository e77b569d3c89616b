package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

// twin makes tests use an instruction set that this CPU lacks.
const twin = "LOWPACK_TEST_TWIN"

func init() {
	// The generator's tests run the kernels for AVX-VNNI in another encoding, which this CPU knows; TestTileRegisters
	// has the instructions of AMX carried out.
	if isa := ISA(os.Getenv(twin)); isa != "" && !Have(isa) {
		selected.isas = append([]ISA{isa}, selected.isas...)
	}
}

// specs lists every layout with every alphabet that a kernel of this CPU multiplies, the generic one aside.
func specs(t testing.TB) (list []pack.Spec) {
	for _, info := range pack.Layouts() {
		if info.Block > 0 {
			continue // for exchange only
		}
		for _, a := range info.Alphabets {
			l, err := pack.Open(pack.Spec{Name: info.Name, Alphabet: a.Name})
			if err != nil {
				t.Fatal(err)
			}
			if len(For(l.Spec())) > 1 {
				list = append(list, l.Spec())
			}
		}
	}
	return list
}

// onlyUnpacked reports whether no kernel reads the bytes of the layout themselves.
func onlyUnpacked(s pack.Spec) bool {
	return !slices.ContainsFunc(For(s), func(k *Kernel) bool { return k.Layout != "*" })
}

// kernels lists the kernels that a problem is given to: all kernels of the layout. Kernels for every layout first
// repack to bytes that do not depend on the layout; if other kernels read the layout directly, they get one problem in
// four.
func (p *problem) kernels() []*Kernel {
	spec, s := p.layout.Spec(), p.matrix.Shape
	list := For(spec)
	if long.All || onlyUnpacked(spec) || (s.M+s.K+p.x.N)%4 == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(k *Kernel) bool { return k.Layout == "*" })
}

// anotherTable reports whether the alphabet differs from int2odd only in tables: it is multiplied by the same
// functions.
func anotherTable(s pack.Spec) bool {
	return s.Alphabet == pack.Int2.Name || s.Alphabet == pack.Int2Q.Name
}

// check compares the kernels for the layout with the answer.
func (p *problem) check(t testing.TB) {
	t.Helper()
	for _, k := range p.kernels() {
		group := p.group
		if group == 0 {
			group = p.matrix.K
		}
		if k.checkGroup(p.matrix.K, group) != nil {
			continue
		}
		w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, p.group)
		if err != nil {
			t.Fatal(err)
		}
		p.compare(t, w)
		if p.group > 0 {
			p.compareScaled(t, w)
		}
		w.Close()
	}
}

// untouched marks results that no kernel may write.
const untouched = -0x5A5A5A5A

func (p *problem) compare(t testing.TB, w *Weights) {
	t.Helper()
	m, ldy := p.matrix.M, p.matrix.M+3
	got := make([]int32, p.x.N*w.Groups()*ldy)
	for i := range got {
		got[i] = untouched
	}
	for from := 0; from < w.Panels(); {
		to := min(from+max(w.Panels()-1, 1), w.Panels())
		w.Mul(got, ldy, p.x, from, to)
		from = to
	}
	for i, v := range got {
		want := int32(untouched)
		if i%ldy < m {
			want = p.want[i/ldy*m+i%ldy]
		}
		if v != want {
			t.Fatalf("%v, alphabet %s, shape %v, group %d: token and group %d of %d × %d, row %d: %d, want %d",
				w.Kernel,
				p.matrix.Alphabet.Name, p.matrix.Shape, p.group, i/ldy, p.x.N, w.Groups(), i%ldy, v, want)
		}
	}
}

// TestKernels compares every kernel that this CPU can run with the definition: for every number of columns up to a
// bound, a sample of those up to 2048, and 1 to 17 tokens. Layouts that are multiplied only after unpacking take a
// sample of all, and alphabets that differ only in tables every fifth number of columns. LOWPACK_LONG=1 takes every
// number of columns up to 2048, with three seeds.
func TestKernels(t *testing.T) {
	most, seeds, large := 300, uint64(1), 2
	if long.All {
		most, seeds, large = 2048, 3, 6
	}
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			step := 1
			switch {
			case onlyUnpacked(spec) || testing.Short():
				step = 37
			case anotherTable(spec) && !long.All:
				step = 5
			}
			for seed := range seeds {
				r := rand.New(rand.NewPCG(7, seed))
				for k := 1; k <= most; k += step {
					newProblem(t, spec, pack.Shape{M: 1 + r.IntN(100), K: k}, 1+(k+int(seed))%17, 0, r).check(t)
				}
				for k := most + 1; k <= 2048; k += 4*step + 64 { // every number of tokens, with more columns
					newProblem(t, spec, pack.Shape{M: 1 + r.IntN(70), K: k + r.IntN(64)}, 1+k/68%17, 0, r).check(t)
				}
				for range large { // enough for tables of Vec-LUT
					s, n := pack.Shape{M: 256 + r.IntN(200), K: 1 + r.IntN(600)}, 20+r.IntN(50)
					newProblem(t, spec, s, n, 0, r).check(t)
				}
			}
		})
	}
}

// TestGroups is the same with scales per group of columns. Layouts that are only unpacked share the sizes of groups,
// three each.
func TestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for at, spec := range specs(t) {
		step := 1
		if onlyUnpacked(spec) && !long.All {
			step = 3
		}
		for i, group := range []int{4, 16, 20, 32, 64, 100, 128, 160, 256} {
			if (i+at)%step == 0 {
				s := pack.Shape{M: 1 + r.IntN(140), K: group + 1 + r.IntN(3*group)}
				newProblem(t, spec, s, 1+r.IntN(9), group, r).check(t)
			}
		}
		for i, group := range []int{32, 128, 160} {
			if (i+at)%step != 0 {
				continue
			}
			newProblem(t, spec, pack.Shape{M: 256 + r.IntN(100), K: group + 1 + r.IntN(400)}, 20+r.IntN(50), group,
				r).check(t)
		}
	}
}

// TestExtremes fills matrices with the largest and smallest weights and vectors with the largest and smallest
// activations, over as many columns as models have and more: no sum inside a kernel may overflow.
func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	shapes := []struct { // the last one is large enough for tables of Vec-LUT in a call for all panels but one
		pack.Shape
		tokens int
	}{{pack.Shape{M: 9, K: 65536}, 2}, {pack.Shape{M: 33, K: 16384 + 20}, 1}, {pack.Shape{M: 384, K: 780}, 28}}
	if testing.Short() {
		shapes = shapes[1:]
	}
	for _, spec := range specs(t) {
		if onlyUnpacked(spec) && spec.Name != "blocked" {
			continue // repacked, they are the same int8 weights
		}
		a, err := pack.FindAlphabet(spec.Alphabet)
		if err != nil {
			t.Fatal(err)
		}
		weights := []int8{a.Values[0], a.Values[len(a.Values)-1]}
		for _, s := range shapes {
			p := newProblem(t, spec, pack.Shape{M: 1, K: 1}, 1, 0, r)
			p.matrix, p.x = pack.NewMatrix(s.Shape, a), NewActivations(s.tokens, s.K)
			for pattern := range 3 {
				for i := range p.matrix.Codes {
					p.matrix.Codes[i] = weights[pattern&i&1|pattern>>1]
				}
				for n := range s.tokens {
					for k := range p.x.Row(n) {
						p.x.Row(n)[k] = int8(MaxActivation * (1 - 2*((k&pattern|n)&1)))
					}
				}
				p.pack(t)
				p.check(t)
			}
		}
	}
}

// TestLongRows lets sums of base-3 bytes wrap, from which the digit sums still follow: 242·127·K is beyond 2³¹.
func TestLongRows(t *testing.T) {
	p := newProblem(t, pack.Spec{Name: "vnni4t"}, pack.Shape{M: 1, K: 1}, 1, 0, rand.New(rand.NewPCG(23, 24)))
	p.matrix, p.x = pack.NewMatrix(pack.Shape{M: 81, K: 1<<17 + 4}, pack.Ternary), NewActivations(1, 1<<17+4)
	for i := range p.matrix.Codes {
		p.matrix.Codes[i] = int8(1 - i/p.matrix.K%3)
	}
	for k := range p.x.Row(0) {
		p.x.Row(0)[k] = MaxActivation
	}
	p.pack(t)
	p.check(t)
}

// TestManyTokens has activations of several times blockBytes: tiles of the tokens of every block, each once.
func TestManyTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(49, 50))
	for _, alphabet := range []string{pack.Int4.Name, pack.Ternary.Name} {
		for _, group := range []int{0, 4096} {
			s := pack.Shape{M: 40, K: blockBytes / 25}
			newProblem(t, pack.Spec{Name: "vnni4i", Alphabet: alphabet}, s, 60, group, r).check(t)
		}
	}
}

// TestFences puts packed bytes, results and activations at the end and at the beginning of memory whose adjacent page
// is inaccessible, and packed bytes at every alignment.
func TestFences(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	packed, results, rows := fence.New(t, 64<<10), fence.New(t, 64<<10), fence.New(t, 64<<10)
	for _, spec := range specs(t) {
		count := 16
		if long.All {
			count = 24
		}
		if onlyUnpacked(spec) || testing.Short() {
			count = 4
		}
		for i := range count {
			s, n := pack.Shape{M: 1 + r.IntN(140), K: 1 + r.IntN(150)}, 1+r.IntN(13)
			if i%8 > 5 { // at either end of memory
				s.M, n = 256+r.IntN(70), 20+r.IntN(20)
			}
			p := newProblem(t, spec, s, n, 0, r)
			place, off := fence.Tail[byte], 0
			placeRows, placeResults := fence.Tail[int8], fence.Tail[int32]
			if i%2 == 1 {
				place, off = fence.Head[byte], r.IntN(64)
				placeRows, placeResults = fence.Head[int8], fence.Head[int32]
			}
			here := place(packed, len(p.packed)+off)[off:]
			copy(here, p.packed)
			x := placeRows(rows, len(p.x.rows))
			copy(x, p.x.rows)
			p.x.rows = x
			for _, k := range For(spec) {
				w, err := BindWith(k, p.layout, s, here, 0)
				if err != nil {
					t.Fatal(err)
				}
				got := placeResults(results, n*s.M)
				w.Mul(got, s.M, p.x, 0, w.Panels())
				if !slices.Equal(got, p.want) {
					t.Fatalf("%v, alphabet %s, shape %v, %d tokens: wrong results", k, spec.Alphabet, s, n)
				}
				w.Close()
				packed.Check(t)
				results.Check(t)
				rows.Check(t)
			}
		}
	}
}

func TestMulRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	p := newProblem(t, pack.Spec{Name: "vnni4i"}, pack.Shape{M: 40, K: 30}, 2, 0, r)
	w, err := Bind(p.layout, p.matrix.Shape, p.packed, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	y := make([]int32, 80)
	for name, f := range map[string]func(){
		"panel too many":     func() { w.Mul(y, 40, p.x, 0, w.Panels()+1) },
		"negative panel":     func() { w.Mul(y, 40, p.x, -1, 1) },
		"results too short":  func() { w.Mul(y[:79], 40, p.x, 0, 1) },
		"rows overlap":       func() { w.Mul(y, 39, p.x, 0, 1) },
		"columns of another": func() { w.Mul(y, 40, NewActivations(1, 31), 0, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	for i, v := range y {
		if v != 0 {
			t.Fatalf("result %d was written by a call that was refused", i)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	l, err := pack.Open(pack.Spec{Name: "vnni4i"})
	if err != nil {
		t.Fatal(err)
	}
	s := pack.Shape{M: 32, K: 4}
	if _, err := Bind(l, s, make([]byte, 31), 0); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("short bytes: %v", err)
	}
	if _, err := Bind(l, pack.Shape{M: 0, K: 4}, nil, 0); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("empty shape: %v", err)
	}
	for _, k := range Kernels() {
		if k.Layout == "vnni4" {
			if _, err := BindWith(k, l, s, make([]byte, 32), 0); !errors.Is(err, pack.ErrUnsupported) {
				t.Errorf("%v for layout vnni4i: %v", k, err)
			}
		}
	}
	wide, err := pack.Open(pack.Spec{Name: "vnni4", Alphabet: pack.Int8.Name})
	if err != nil {
		t.Fatal(err)
	}
	s = pack.Shape{M: 1, K: 1 << 18}
	size, err := wide.PackedSize(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Bind(wide, s, make([]byte, size), 0); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("sums beyond int32: %v", err)
	}
	if w, err := Bind(wide, s, make([]byte, size), 1<<16); err != nil {
		t.Errorf("sums within int32: %v", err)
	} else {
		w.Close()
	}
}

// TestBatchPanels: only kernels with tables ask for many rows at a time, and only for batches.
func TestBatchPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	p := newProblem(t, pack.Spec{Name: "vnni4i"}, pack.Shape{M: 70, K: 40}, 1, 0, r)
	for _, k := range For(p.layout.Spec()) {
		w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.batchPanels(1); n != 1 {
			t.Errorf("%v: %d panels for one token", k, n)
		}
		tables := strings.Contains(k.About, "Vec-LUT")
		if k.Layout == "*" {
			tables = w.batchPanels(128) > 1 // what it packed the matrix into decides
		}
		if n := w.batchPanels(128); tables != (n*w.PanelRows() >= 1000) {
			t.Errorf("%v: %d panels of %d rows for 128 tokens", k, n, w.PanelRows())
		}
		w.Close()
	}
}

// TestChunk: chunks leave work for every thread, and tables of Vec-LUT rows to pay for.
func TestChunk(t *testing.T) {
	l, err := pack.Open(pack.Spec{Name: "vnni4i"})
	if err != nil {
		t.Fatal(err)
	}
	s := pack.Shape{M: 2560, K: 2560}
	size, err := l.PackedSize(s)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, size)
	for _, k := range For(l.Spec()) {
		w, err := BindWith(k, l, s, packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		for threads := range 9 {
			for _, tokens := range []int{1, 8, 64} {
				chunk := w.Chunk(tokens, threads)
				if chunks := ceilDiv(w.Panels(), chunk); chunk < 1 || chunks < threads {
					t.Errorf("%v: %d panels at once for %d threads", k, chunk, threads)
				}
				rows, tables := chunk*w.PanelRows(), w.batchPanels(tokens) > 1
				if tables && rows < 256 || !tables && threads > 1 && w.Bytes()/w.Panels()*chunk > 2*vectorBytes {
					t.Errorf("%v: %d rows at once for %d tokens, %d threads", k, rows, tokens, threads)
				}
			}
		}
		w.Close()
	}
}

// TestMulAllocatesNothing: a decode step must not allocate.
func TestMulAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, spec := range specs(t) {
		p := newProblem(t, spec, pack.Shape{M: 300, K: 100}, 40, 0, r)
		for _, k := range For(spec) {
			w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, 0)
			if err != nil {
				t.Fatal(err)
			}
			y := make([]int32, len(p.want))
			if n := testing.AllocsPerRun(5, func() { w.Mul(y, 300, p.x, 0, w.Panels()) }); n != 0 {
				t.Errorf("%v: Mul allocates %v times", k, n)
			}
			if err := w.Scale(Scales{Weights: make([]float32, 300)}, plain); err != nil {
				t.Fatal(err)
			}
			z := make([]float32, len(p.want))
			if n := testing.AllocsPerRun(5, func() { w.MulScaled(z, 300, p.x, 0, w.Panels()) }); n != 0 {
				t.Errorf("%v: MulScaled allocates %v times", k, n)
			}
			w.Close()
		}
	}
}

// BenchmarkKernels multiplies matrices of half a megabyte of packed weights: what a kernel reaches when memory is not
// the bottleneck.
func BenchmarkKernels(b *testing.B) {
	for _, spec := range specs(b) {
		l, err := pack.Open(spec)
		if err != nil {
			b.Fatal(err)
		}
		s := pack.Shape{M: 1024, K: 2560}
		size, err := l.PackedSize(s)
		if err != nil {
			b.Fatal(err)
		}
		packed := make([]byte, size)
		for _, k := range For(spec) {
			if k.Layout == "*" && spec.Name != "blocked" || k.ISA == Generic {
				continue
			}
			w, err := BindWith(k, l, s, packed, 0)
			if err != nil {
				b.Fatal(err)
			}
			for _, n := range []int{1, 4, 8, 32, 128} {
				x, y := NewActivations(n, s.K), make([]int32, n*s.M)
				b.Run(fmt.Sprintf("%v/%s/%d", k, spec.Alphabet, n), func(b *testing.B) {
					b.SetBytes(int64(size))
					for b.Loop() {
						w.Mul(y, s.M, x, 0, w.Panels())
					}
					b.ReportMetric(2*float64(s.M*s.K*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
				})
			}
			w.Close()
		}
	}
}
