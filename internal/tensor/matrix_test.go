package tensor

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/pack"
)

// encode stores floats in a format; their values change to what is stored.
func encode(t Type, x []float32) []byte {
	data := make([]byte, len(x)*t.Size())
	for i, v := range x {
		switch t {
		case F32:
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		case F16:
			h := float16.Narrow(v)
			if h&0x7c00 == 0x7c00 {
				h &^= 0x0400 // keep it finite
			}
			binary.LittleEndian.PutUint16(data[2*i:], h)
		case BF16:
			binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(v)>>16))
		}
	}
	widen(x, t, data)
	return data
}

// TestMul compares products with the definition: every number of columns, odd numbers of rows and vectors, data at odd
// addresses, and nothing written outside of the result.
func TestMul(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, typ := range []Type{F32, F16, BF16} {
			for cols := 1; cols <= longest; cols++ {
				rows, n := 1+r.IntN(11), 1+r.IntN(24)
				draw := numbers
				if cols%3 == 0 {
					draw = ordinary // sums that mean something
				}
				w := draw(r, rows*cols)
				data := append(make([]byte, 1), encode(typ, w)...)[1:]
				m, err := NewMatrix(typ, rows, cols, data)
				if err != nil {
					t.Fatal(err)
				}
				ldx, from := cols+r.IntN(3), r.IntN(rows)
				to := from + r.IntN(rows-from+1)
				ldy := to - from + r.IntN(3)
				x, y := draw(r, n*ldx), ordinary(r, n*ldy+1)
				want := clone(y)
				for i := range n {
					for j := from; j < to; j++ {
						want[i*ldy+j-from] = dotReference(w[j*cols:][:cols], x[i*ldx:])
					}
				}
				m.Mul(Vectors{y, ldy}, Vectors{x, ldx}, n, Range{from, to})
				if d := differ(y, want); d != "" {
					t.Fatalf("%v, %d columns, rows %d to %d of %d, %d vectors: %s", typ, cols, from, to, rows, n, d)
				}
			}
		}
	})
}

// dotReference is N5 and N6 as they are written.
func dotReference(w, x []float32) float32 {
	var lane [16]float32
	for i := range w {
		lane[i%16] = fma.Float32(w[i], x[i], lane[i%16])
	}
	for _, s := range []int{8, 4, 2, 1} {
		for j := range s {
			lane[j] = lane[j] + lane[j+s]
		}
	}
	return lane[0]
}

func TestAddWeighted(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, typ := range []Type{F32, F16, BF16} {
			for cols := 1; cols <= longest; cols++ {
				rows := 1 + r.IntN(9)
				w := numbers(r, rows*cols)
				m, err := NewMatrix(typ, rows, cols, encode(typ, w))
				if err != nil {
					t.Fatal(err)
				}
				from := r.IntN(rows)
				n, heads, first := r.IntN(rows-from+1), 1+r.IntN(9), r.IntN(cols+1)&^(Lanes-1)
				lde, ldo := n+r.IntN(3), cols-first+r.IntN(3)
				e, o := numbers(r, heads*lde), numbers(r, heads*ldo)
				want := clone(o)
				for h := range heads {
					for j, v := range e[h*lde:][:n] {
						for i := first; i < cols; i++ {
							want[h*ldo+i-first] = fma.Float32(v, w[(from+j)*cols+i], want[h*ldo+i-first])
						}
					}
				}
				m.AddWeighted(Vectors{o, ldo}, Vectors{e, lde}, heads, Range{from, from + n}, Range{first, cols},
					r.IntN(5000))
				if d := differ(o, want); d != "" {
					t.Fatalf("%v, %d columns from %d on, %d rows, %d outputs: %s", typ, cols, first, n, heads, d)
				}
			}
		}
	})
}

// TestSetRow: what is stored comes back, rounded to the format; other rows, and columns beyond what is given, stay.
func TestSetRow(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, typ := range []Type{F32, F16} {
		m, err := NewMatrix(typ, 3, 21, make([]byte, 3*21*typ.Size()))
		if err != nil {
			t.Fatal(err)
		}
		x, part, got := ordinary(r, 21), ordinary(r, 21), make([]float32, 21)
		m.Type.set(m.bytes(1, 2), x, 0)
		m.Type.set(m.bytes(1, 2), part[:15], 0)
		copy(x, part[:15])
		for i := range m.Rows {
			m.Row(got, i)
			for j, v := range got {
				want := float32(0)
				if i == 1 {
					want = x[j]
					if typ == F16 {
						want = float16.Widen(float16.Narrow(want))
					}
				}
				if v != want {
					t.Fatalf("%v: row %d, column %d: %v, want %v", typ, i, j, v, want)
				}
			}
		}
	}
}

func TestNewMatrixRefuses(t *testing.T) {
	for _, c := range []struct{ rows, cols, bytes int }{{2, 3, 23}, {2, 3, 25}, {0, 3, 0}, {-1, -1, 4},
		{math.MaxInt, 2, 4}} {
		if _, err := NewMatrix(F32, c.rows, c.cols, make([]byte, c.bytes)); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := ParseType("I8"); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}
