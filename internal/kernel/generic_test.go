package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// problem is one multiplication with its answer, computed from the codes by nested loops and nothing of this package.
type problem struct {
	layout pack.Layout
	matrix *pack.Matrix
	packed []byte
	x      *Activations
	group  int
	want   []int32 // [N][G][M]
}

func newProblem(t testing.TB, spec pack.Spec, s pack.Shape, tokens, group int, r *rand.Rand) *problem {
	t.Helper()
	l, err := pack.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	a, err := pack.FindAlphabet(l.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	p := &problem{layout: l, matrix: pack.NewMatrix(s, a), x: NewActivations(tokens, s.K), group: group}
	draw(p.matrix.Codes, a.Values, r)
	for n := range tokens {
		draw(p.x.Row(n), everyActivation, r)
	}
	p.pack(t)
	return p
}

// everyActivation is −127 … 127.
var everyActivation = func() (list []int8) {
	for v := -MaxActivation; v <= MaxActivation; v++ {
		list = append(list, int8(v))
	}
	return list
}()

// draw fills x with random values of a list, four for each random number.
func draw(x, from []int8, r *rand.Rand) {
	for ; len(x) > 0; x = x[min(4, len(x)):] {
		random := r.Uint64()
		for i := range x[:min(4, len(x))] {
			x[i] = from[int(random>>(16*i)&0xffff)*len(from)>>16]
		}
	}
}

// pack derives what follows from the codes and activations.
func (p *problem) pack(t testing.TB) {
	t.Helper()
	size, err := p.layout.PackedSize(p.matrix.Shape)
	if err != nil {
		t.Fatal(err)
	}
	p.packed = make([]byte, size)
	if err := p.layout.Pack(p.packed, p.matrix); err != nil {
		t.Fatal(err)
	}
	p.x.Finish()
	group := p.group
	if group == 0 {
		group = p.matrix.K
	}
	p.want = p.want[:0]
	for n := range p.x.N {
		x := p.x.Row(n)
		for from := 0; from < p.matrix.K; from += group {
			for m := range p.matrix.M {
				to := min(from+group, p.matrix.K)
				p.want = append(p.want, products(p.matrix.Codes[m*p.matrix.K:][from:to], 0, x[from:to]))
			}
		}
	}
}

// products is the sum of (code − zero) · activation.
func products(codes []int8, zero int32, x []int8) (sum int32) {
	x = x[:len(codes)] // so that the loop checks no bounds
	for k, code := range codes {
		sum += (int32(code) - zero) * int32(x[k])
	}
	return sum
}

func TestGeneric(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, group := range []int{0, 32, 33} {
		p := newProblem(t, pack.Spec{Name: "vnni4i"}, pack.Shape{M: 70, K: 100}, 3, group, r)
		w, err := BindWith(generic, p.layout, p.matrix.Shape, p.packed, group)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		got := make([]int32, len(p.want))
		w.Mul(got, p.matrix.M, p.x, 0, w.Panels())
		for i, v := range got {
			if v != p.want[i] {
				t.Fatalf("group %d: element %d is %d, want %d", group, i, v, p.want[i])
			}
		}
	}
}

func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, k := range []int{1, 31, 32, 33, 63, 64, 65, 100, 257} {
		x := NewActivations(2, k)
		for n := range 2 {
			for i := range x.Row(n) {
				x.Row(n)[i] = int8(r.IntN(255) - 127)
			}
		}
		x.Finish()
		for range 50 {
			n, lo := r.IntN(2), r.IntN(k)
			hi := lo + r.IntN(k-lo+1)
			want := int32(0)
			for _, v := range x.Row(n)[lo:hi] {
				want += int32(v)
			}
			if got := x.Sum(n, lo, hi); got != want {
				t.Fatalf("K = %d: sum of [%d, %d) is %d, want %d", k, lo, hi, got, want)
			}
		}
	}
}
