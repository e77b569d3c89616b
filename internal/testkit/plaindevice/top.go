package plaindevice

import (
	"cmp"
	"math"
	"slices"

	"github.com/lowpack/lowpack/runtime/device"
)

// pair is an element of a row, and what it is called.
type pair struct {
	value float32
	id    uint32
}

// before is the order of N21, with NaN as the smallest. Equal elements keep their places.
func before(a, b pair) int {
	switch aNaN, bNaN := a.value != a.value, b.value != b.value; {
	case aNaN || bNaN:
		return cmp.Compare(flag(aNaN), flag(bNaN))
	default:
		return cmp.Compare(b.value, a.value)
	}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func top(op device.Top, b buffers) {
	n, in, out := int(op.Len), b.u32(0), b.u32(1)
	at := 0
	for r := range int(op.N) {
		for first := 0; first < n; first += device.TopPart {
			var part []pair
			for i := first; i < min(first+device.TopPart, n); i++ {
				part = append(part, element(op, in, r*n, i))
			}
			slices.SortStableFunc(part, before)
			for i := range int(op.Most) {
				p := pair{float32(math.Inf(-1)), device.NoToken}
				if i < len(part) {
					p = part[i]
				}
				out[at], out[at+1] = math.Float32bits(p.value), p.id
				at += 2
			}
		}
	}
}

// element is element i of the row that starts at element row.
func element(op device.Top, in []uint32, row, i int) pair {
	if op.Pairs != 0 {
		return pair{math.Float32frombits(in[2*(row+i)]), in[2*(row+i)+1]}
	}
	return pair{math.Float32frombits(in[row+i]), uint32(i)}
}
