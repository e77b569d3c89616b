package kernel

import "testing"

// TestPairs: of two blocks of columns the parts that one field of packed weights holds lie together; the order follows
// changes of the rows.
func TestPairs(t *testing.T) {
	for blocks := 1; blocks <= 7; blocks++ {
		x := NewActivations(3, 128*blocks)
		for round := range 2 {
			for n := range x.N {
				for k := range x.Row(n) {
					x.Row(n)[k] = int8((k*7+n*31+round*5)%255 - 127)
				}
			}
			x.Finish()
			for n := range x.N {
				rows, stride := x.paired(n, x.N)
				if len(rows) < stride || stride%64 != 0 {
					t.Fatalf("%d bytes, stride %d", len(rows), stride)
				}
				for i, v := range rows[:stride] {
					pair, field, second, j := i/256, i/64%4, i/32%2, i%32
					want := int8(0)
					if k := 256*pair + 128*second + 32*field + j; k < x.K && pair < ceilDiv(blocks, 2) {
						want = x.Row(n)[k]
					}
					if v != want {
						t.Fatalf("%d blocks, token %d, byte %d: %d, want %d", blocks, n, i, v, want)
					}
				}
			}
		}
	}
}
