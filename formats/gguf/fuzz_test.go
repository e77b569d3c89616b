package gguf

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// FuzzBlocks decodes bytes as a row of every type with codes: what is no row is an error, codes are in the alphabet,
// and scales are the products of their factors.
func FuzzBlocks(f *testing.F) {
	for id := range allTraits {
		if _, ok := id.Codes(); ok && id != I2_S {
			f.Add(uint32(id), slices.Repeat([]byte{0x35, 0x2c, 0xe1}, int(id.RowSize(256)))[:id.RowSize(256)], 256)
			f.Add(uint32(id), make([]byte, id.RowSize(512)), 512)
		}
	}
	f.Fuzz(func(t *testing.T, number uint32, row []byte, columns int) {
		id := Type(number)
		c, ok := id.Codes()
		if !ok || id == I2_S || columns < 1 || columns > 1<<12 || columns%int(allTraits[id].weights) != 0 {
			return
		}
		n := 1
		if c.Group > 0 {
			n = columns / c.Group
		}
		codes, scales, minima := make([]int8, columns), make([]float32, n), make([]float32, n)
		if err := id.DecodeRow(codes, scales, minima, row); err != nil {
			if !errors.Is(err, pack.ErrCorrupt) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		for i, v := range codes {
			if !slices.Contains(c.Alphabet.Values, v) {
				t.Fatalf("%s: column %d has code %d", id, i, v)
			}
		}
		if !c.Factors {
			return
		}
		unit := float32(1)
		if c.Eighths {
			unit = 0.125
		}
		err := id.EachFactors(row, func(half float32, integers []int8, _ float32, _ []int8) {
			for i, s := range integers {
				if scales[i] != half*float32(s)*unit {
					t.Fatalf("%s: scale %v is not %v · %d · %v", id, scales[i], half, s, unit)
				}
			}
			scales = scales[len(integers):]
		})
		if err != nil || len(scales) > 0 {
			t.Errorf("%s: %v, %d scales are left", id, err, len(scales))
		}
	})
}
