package tensor

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestStream compares products of rows read in the order of memory with the definition, at odd addresses that end where
// memory ends, however far ahead is prefetched.
func TestStream(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r, rowsEnd := rand.New(rand.NewPCG(17, 18)), fence.New(t, 16<<10)
		for _, typ := range []Type{F32, F16} {
			for cols := Lanes; cols <= 20*Lanes; cols += Lanes {
				for rows := 1; rows < 10; rows++ {
					n, from := 1+r.IntN(9), r.IntN(rows)
					w := numbers(r, rows*cols)
					data := fence.Tail[byte](rowsEnd, rows*cols*typ.Size())
					copy(data, encode(typ, w))
					m := &Matrix{typ, rows, cols, data}
					ldy := rows - from + r.IntN(3)
					x, y := numbers(r, n*cols), ordinary(r, n*ldy)
					want := clone(y)
					for i := range n {
						for j := from; j < rows; j++ {
							want[i*ldy+j-from] = dotReference(w[j*cols:][:cols], x[i*cols:])
						}
					}
					m.stream(Vectors{y, ldy}, Vectors{x, cols}, n, Range{from, rows}, 1+r.IntN(1<<20))
					if d := differ(y, want); d != "" {
						t.Fatalf("%v, %d columns, rows %d to %d, %d vectors: %s", typ, cols, from, rows, n, d)
					}
				}
			}
		}
	})
}

// TestI8 compares the integer products and the weighted sums of int8 rows with their definitions, the largest codes
// among them, and what becomes of rows as floats.
func TestI8(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r, rowsEnd, vectorsEnd := rand.New(rand.NewPCG(19, 20)), fence.New(t, 16<<10), fence.New(t, 16<<10)
		for cols := 32; cols <= 512; cols += 32 {
			for rows := 1; rows < 12; rows++ {
				n := 1 + r.IntN(9)
				data, x := fence.Tail[byte](rowsEnd, rows*cols), fence.Tail[int8](vectorsEnd, n*cols)
				for i := range data {
					data[i] = byte(r.IntN(255) - 127)
				}
				for i := range x {
					x[i] = int8(127 - 254*r.IntN(2))
				}
				if rows%2 == 0 {
					for i := range data {
						data[i] = byte(127 - 254*r.IntN(2))
					}
				}
				m := &Matrix{I8, rows, cols, data}
				got, want := make([]int32, n*rows), make([]int32, n*rows)
				m.dotInt8(got, rows, x, n, Range{0, rows}, 1000)
				for h := range n {
					for j := range rows {
						for i := range cols {
							want[h*rows+j] += int32(int8(data[j*cols+i])) * int32(x[h*cols+i])
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d × %d, %d vectors: %v, want %v", rows, cols, n, got, want)
				}
				o, e, wide := numbers(r, n*cols), numbers(r, n*rows), make([]float32, rows*cols)
				weights, sums := Vectors{e, rows}, clone(o)
				m.AddWeighted(Vectors{o, cols}, weights, n, Range{0, rows}, Range{0, cols}, 1000)
				whole := m.widened(Range{0, rows}, Range{0, cols}, wide)
				whole.AddWeighted(Vectors{sums, cols}, weights, n, Range{0, rows}, Range{0, cols}, 0)
				if d := differ(o, sums); d != "" {
					t.Fatal(d)
				}
				row := make([]float32, cols)
				for i, code := range data {
					if whole.Row(row, i/cols); row[i%cols] != float32(int8(code)) {
						t.Fatalf("%d is widened to %v", int8(code), row[i%cols])
					}
				}
				axpyGo(I8, n, &floatArgs{sums, cols, data, cols, e, rows, cols, rows, 0})
				m.AddWeighted(Vectors{o, cols}, weights, n, Range{0, rows}, Range{0, cols}, 0)
				if d := differ(o, sums); d != "" {
					t.Fatal(d)
				}
			}
		}
	})
}

// TestNarrow compares with float16.Narrow: all numbers of 16 bits, what lies halfway between two of them, the neighbors
// of both, and NaNs with other payloads. Bytes behind the last number stay.
func TestNarrow(t *testing.T) {
	x := []float32{math.Nextafter32(65520, 0), 65520, -65520} // halfway between the largest and what would follow it
	for i := range uint16(math.MaxUint16) {
		v, next := float16.Widen(i), float16.Widen(i+1)
		for _, c := range []float32{v, v + (next-v)/2, math.Float32frombits(math.Float32bits(v) | 1<<22 | 1<<12)} {
			for d := range uint32(3) {
				x = append(x, math.Float32frombits(math.Float32bits(c)+d-1))
			}
		}
	}
	want := make([]byte, 2*len(x))
	narrowF16Go(x, want)
	eachLevel(t, func(t *testing.T) {
		y := make([]byte, 2*len(x))
		F16.set(y, x, 0)
		if !bytes.Equal(y, want) {
			t.Error("numbers are rounded another way")
		}
		behind := bytes.Repeat([]byte{7}, 80)
		for n := range 40 { // in part
			copy(y, behind)
			F16.set(y, x[:n], 0)
			if !bytes.Equal(y[:2*n], want[:2*n]) || !bytes.Equal(y[2*n:80], behind[2*n:]) {
				t.Fatalf("the first %d numbers are stored another way", n)
			}
		}
	})
}

// TestWiden compares all numbers of 16 bits with float16.Widen.
func TestWiden(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		x, y, want := make([]byte, 2<<16), make([]float32, 1<<16), make([]float32, 1<<16)
		for i := range want {
			x[2*i], x[2*i+1] = byte(i), byte(i>>8)
			want[i] = float16.Widen(uint16(i))
		}
		widenF16(y, x)
		if d := differ(y, want); d != "" {
			t.Error(d)
		}
	})
}
