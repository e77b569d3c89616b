package kernel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

func init() {
	// The generator's tests run the kernels for AVX-VNNI in another encoding, which this CPU knows.
	if isa := ISA(os.Getenv("LOWPACK_TEST_TWIN")); isa != "" && !Have(isa) {
		selected.isas = append([]ISA{isa}, selected.isas...)
	}
}

// specs lists every layout with every alphabet that some kernel of this CPU besides the generic one multiplies.
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

// check compares every kernel for the layout with the answer.
func (p *problem) check(t testing.TB) {
	t.Helper()
	for _, k := range For(p.layout.Spec()) {
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
			t.Fatalf("%v, alphabet %s, shape %v, group %d: token and group %d of %d × %d, row %d: %d, want %d", w.Kernel,
				p.matrix.Alphabet.Name, p.matrix.Shape, p.group, i/ldy, p.x.N, w.Groups(), i%ldy, v, want)
		}
	}
}

// TestKernels compares every kernel that this CPU can run with the definition, for every number of columns up to a
// bound. What is only multiplied after unpacking takes a sample.
func TestKernels(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 8))
			most, step := 300, 1
			if For(spec)[0].Layout == "*" {
				step = 37
			}
			for k := 1; k <= most; k += step {
				newProblem(t, spec, pack.Shape{M: 1 + r.IntN(100), K: k}, 1+r.IntN(17), 0, r).check(t)
			}
			for range 6 { // large enough for tables of Vec-LUT
				s, n := pack.Shape{M: 256 + r.IntN(200), K: 1 + r.IntN(600)}, 20+r.IntN(50)
				newProblem(t, spec, s, n, 0, r).check(t)
			}
			for range 4 {
				newProblem(t, spec, pack.Shape{M: 1 + r.IntN(140), K: 300 + r.IntN(1749)}, 1+r.IntN(17), 0, r).check(t)
			}
		})
	}
}

// BenchmarkKernels multiplies matrices of half a megabyte of packed weights: what a kernel reaches when memory does not
// hold it up.
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
