package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

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
	for from := 0; from < w.Panels(); from += 3 {
		w.Mul(got, ldy, p.x, from, min(from+3, w.Panels()))
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

func TestKernels(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 8))
			for k := 1; k <= 300; k++ {
				newProblem(t, spec, pack.Shape{M: 1 + r.IntN(140), K: k}, 1+r.IntN(17), 0, r).check(t)
			}
		})
	}
}

func BenchmarkKernels(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, name := range []string{"vnni4i", "vnni4i-64"} {
		for _, n := range []int{1, 4, 8, 32, 128} {
			p := newProblem(b, pack.Spec{Name: name}, pack.Shape{M: 64, K: 64}, n, 0, r)
			s := pack.Shape{M: 1024, K: 2560}
			size, _ := p.layout.PackedSize(s)
			packed := make([]byte, size)
			x := NewActivations(n, s.K)
			y := make([]int32, n*s.M)
			for _, k := range For(p.layout.Spec()) {
				if k == generic {
					continue
				}
				w, err := BindWith(k, p.layout, s, packed, 0)
				if err != nil {
					b.Fatal(err)
				}
				b.Run(fmt.Sprintf("%v/%d", k, n), func(b *testing.B) {
					b.SetBytes(int64(size))
					for b.Loop() {
						w.Mul(y, s.M, x, 0, w.Panels())
					}
					b.ReportMetric(2*float64(s.M*s.K*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
				})
			}
		}
	}
}
