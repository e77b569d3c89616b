package tensor

import (
	mathbits "math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestUnpackI4 compares the assembly with the definition for every number of blocks and every code, between pages that
// cannot be read or written.
func TestUnpackI4(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r, from, to := rand.New(rand.NewPCG(21, 22)), fence.New(t, 16<<10), fence.New(t, 16<<10)
		for blocks := range 40 {
			x, y := fence.Tail[byte](from, blocks*i4Block/2), fence.Tail[int8](to, blocks*i4Block)
			for i := range x {
				x[i] = byte(r.Uint32())
			}
			want := make([]int8, len(y))
			unpackI4Go(want, x)
			if unpackI4(y, x, 1000); !slices.Equal(y, want) {
				t.Fatalf("%d blocks: %v, want %v", blocks, y, want)
			}
		}
	})
}

// TestPackI4: what is packed is unpacked as the nearest values, for every width and every int8; rows beside stay.
func TestPackI4(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 24))
		for cols := i4Block; cols <= 9*i4Block; cols += i4Block {
			beside := slices.Repeat([]byte{0x5a}, cols)
			m := &Matrix{I4, 3, cols, slices.Repeat([]byte{0x5a}, 3*cols/2)}
			x := make([]float32, 1+r.IntN(cols))
			for i := range x {
				x[i] = float32((i+r.IntN(2))%255 - 127)
			}
			m.Type.set(m.bytes(1, 2), x, 1)
			if rows := slices.Concat(m.bytes(0, 1), m.bytes(2, 3)); !slices.Equal(rows, beside) {
				t.Fatalf("%d columns: rows beside are %x", cols, rows)
			}
			at := Range{r.IntN(len(x)), len(x)}
			wide, in := m.unpacked(Range{0, 3}, at, make([]byte, 3*cols), 0)
			for i, code := range asInt8(wide.bytes(1, 2))[in.From:in.To] {
				if v := x[at.From+i]; float32(code) != nearestI4(v) {
					t.Fatalf("%d columns from %d on: %v becomes %d", cols, at.From, v, code)
				}
			}
		}
	})
}

// TestHadamard compares the transform with its matrix, whose elements are ±1, for numbers whose sums are exact; the
// inverse gives them back; and the order of the sums is that of the definition for others.
func TestHadamard(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(25, 26))
		for n := 1; n <= 640; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.IntN(1000) - 500)
			}
			y, block := clone(x), n&-n
			Hadamard(y)
			for i, got := range y {
				want, first := float32(0), i/block*block
				for j, v := range x[first:][:block] {
					if mathbits.OnesCount(uint(j&(i-first)))%2 == 1 {
						v = -v
					}
					want += v
				}
				if got != want {
					t.Fatalf("element %d of %d: %v, want %v", i, n, got, want)
				}
			}
			if InverseHadamard(y); !slices.Equal(y, x) {
				t.Fatalf("%v of %d elements is not the inverse", y, n)
			}
			x = numbers(r, n)
			y = clone(x)
			Hadamard(y)
			for at := 0; at < n; at += block {
				hadamardGo(x[at:][:block])
			}
			if d := differ(y, x); d != "" {
				t.Fatalf("%d elements: %s", n, d)
			}
		}
	})
}
