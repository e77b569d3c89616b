package pack

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// These tests read packed bytes as the kernels that they were made for do, and compare the products.

// product is the definition.
func product(m *Matrix, x []int8) []int32 {
	y := make([]int32, m.M)
	for i, c := range m.Codes {
		y[i/m.K] += int32(c) * int32(x[i%m.K])
	}
	return y
}

func operands(t *testing.T, spec Spec, s Shape, seed uint64) (m *Matrix, packedBytes []byte, x []int8) {
	t.Helper()
	l, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	m = NewMatrix(s, alphabetOf(t, l))
	randomize(r, m.Codes, m.Alphabet)
	x = make([]int8, s.K)
	for i := range x {
		x[i] = int8(r.IntN(255) - 127)
	}
	return m, packed(t, l, m), x
}

// TestW2A8Kernel replays the BitNet GPU kernel: a block of 8 by 16 threads makes 16 rows; each thread reads 16
// activations and one word per 128 columns, opens the word into four registers of four bytes, and multiplies and adds
// four bytes at a time. The eight threads of a row add up their sums.
func TestW2A8Kernel(t *testing.T) {
	for _, s := range []Shape{{16, 128}, {48, 640}} {
		m, b, x := operands(t, Spec{Name: "w2a8", Alphabet: "int2"}, s, 1)
		y := make([]int32, s.M)
		for block := range s.M / 16 {
			for ty := range 16 {
				for tx := range 8 {
					y[block*16+ty] += w2a8Thread(b, x, s.K, block, tx, ty)
				}
			}
		}
		compareProducts(t, "w2a8", y, product(m, x))
	}
}

func w2a8Thread(b []byte, x []int8, columns, block, tx, ty int) (sum int32) {
	for step := range columns / 128 {
		activations := x[step*128+tx*16:][:16]
		at := block*16*columns/4 + step*128*16/4 + tx/2*(32*16/4) + ty/8*(32*16/2/4) + tx%2*(32*16/4/4) + ty%8*(32/2/4)
		word := binary.LittleEndian.Uint32(b[at:])
		for i := range 4 {
			four := word >> (2 * i) & 0x03030303
			for j := range 4 {
				weight := int32(four>>(8*j)&0xFF) - 2
				sum += weight * int32(activations[4*i+j])
			}
		}
	}
	return sum
}

// TestTritKernel multiplies the bytes of vnni4t and their remainders, without ever extracting a digit; sums wrap as
// 32-bit registers do.
func TestTritKernel(t *testing.T) {
	for _, s := range []Shape{{80, 4}, {80, 140000}, {160, 2560}} {
		m, b, x := operands(t, Spec{Name: "vnni4t"}, s, 2)
		compareProducts(t, "vnni4t", tritKernel(b, x, s), product(m, x))
		for i := range m.Codes {
			m.Codes[i] = 1 - 2*int8(i/m.K%2)
		}
		for i := range x {
			x[i] = 127
		}
		l, err := Open(Spec{Name: "vnni4t"})
		if err != nil {
			t.Fatal(err)
		}
		compareProducts(t, "vnni4t at its extremes", tritKernel(packed(t, l, m), x, s), product(m, x))
	}
}

func tritKernel(b []byte, x []int8, s Shape) []int32 {
	y := make([]int32, s.M)
	var xsum int32
	for _, v := range x {
		xsum += int32(v)
	}
	// Inverses modulo 2³² of 81, 27, 9 and 3.
	inverse := [...]uint32{0x781948B1, 0x684BDA13, 0x38E38E39, 0xAAAAAAAB}
	for lane := range s.M / 5 {
		var sums [6]int32 // Σ r·x of the byte and of its remainders; of the last, by 1, nothing is left
		for k := range s.K {
			r := b[lane/16*16*s.K+k/4*64+lane%16*4+k%4]
			for i, t := range [...]byte{81, 27, 9, 3, 1} {
				sums[i] += int32(r) * int32(x[k])
				r %= t
			}
		}
		for i := range 5 {
			d := sums[i] - sums[i+1]
			if i < 4 {
				d *= int32(inverse[i])
			}
			y[lane/16*80+16*i+lane%16] = d - xsum // a digit is weight + 1
		}
	}
	return y
}

// TestInterleavedKernel opens a word of vnni4i as a 256-bit kernel does: masks and table lookups within the lane.
func TestInterleavedKernel(t *testing.T) {
	const lanes = 8
	value := [4]int32{0, 1, -1, 0}
	s := Shape{64, 128}
	m, b, x := operands(t, Spec{Name: "vnni4i"}, s, 3)
	y := make([]int32, s.M)
	for panel := range s.M / 32 {
		for quad := range s.K / 4 {
			vector := b[panel*lanes*s.K+quad*32:][:32]
			for i, v := range vector {
				low, high := v&15, v>>4
				activation := int32(x[quad*4+i%4])
				for fold, index := range [4]byte{low & 3, low >> 2, high & 3, high >> 2} {
					y[panel*32+fold*lanes+i/4] += value[index] * activation
				}
			}
		}
	}
	compareProducts(t, "vnni4i", y, product(m, x))
}

func compareProducts(t *testing.T, name string, got, want []int32) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: row %d of the product is %d, want %d", name, i, got[i], want[i])
		}
	}
}
