package export

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/pack"
)

// TestIQuantBlocks: random blocks of the types with grids are written again, byte for byte; codes that are not a vector
// of the grid, and scales that the type does not have, are noticed.
func TestIQuantBlocks(t *testing.T) {
	r := seed.Rand(t)
	for kind, k := range iQuants {
		for range 200 {
			stored := randomBlocks(r, kind, pack.Shape{M: 1, K: packed.FactorColumns}, true)
			m := pack.NewMatrix(pack.Shape{M: 1, K: packed.FactorColumns}, k.alphabet)
			if err := kind.DecodeRow(m.Codes, make([]float32, packed.FactorColumns/k.group), nil, stored); err != nil {
				t.Fatal(err)
			}
			u := units{group: k.group, factors: factors{how: packed.Scale{Kind: packed.ScaleGroup, Group: k.group,
				DType: k.scale, Signed: true}}}
			err := kind.EachFactors(stored, func(half float32, scales []int8, _ float32, _ []int8) {
				u.first, _ = u.how.AppendFactors(nil, half, scales)
			})
			dst := make([]byte, len(stored))
			if err != nil || k.encode(dst, m, u) != nil || !bytes.Equal(dst, stored) {
				t.Fatalf("%s: %v: % x, want % x", kind, err, dst, stored)
			}
			for what, change := range iChanges[kind] {
				codes, first := bytes.Clone(packed.CodeBytes(m.Codes)), bytes.Clone(u.first)
				change(m.Codes, u.first[2:])
				if err := k.encode(dst, m, u); !errors.Is(err, errOffGrid) {
					t.Fatalf("%s: %s: %v", kind, what, err)
				}
				copy(m.Codes, packed.BytesAsCodes(codes))
				copy(u.first, first)
			}
		}
	}
}

// iChanges take a block off the grid of a type.
var iChanges = func() map[gguf.Type]map[string]func(codes []int8, scales []byte) {
	fill := func(c int8) func(codes []int8, scales []byte) {
		return func(codes []int8, _ []byte) {
			for i := range codes[:8] {
				codes[i] = c
			}
		}
	}
	scale := func(to byte) func([]int8, []byte) { return func(_ []int8, scales []byte) { scales[1] = to } }
	sign := func(codes []int8, _ []byte) { codes[5] = -codes[5] }
	shift := func(codes []int8, _ []byte) {
		if codes[3]&7 == 1 {
			codes[3] -= 2
		} else {
			codes[3] += 2
		}
	}
	other := func(codes []int8, _ []byte) {
		for i, c := range codes[8:16] { // eight more columns with the other shift
			codes[8+i] = -c
		}
	}
	odd := map[string]func([]int8, []byte){"no scale": scale(0), "an even scale": scale(2), "a large scale": scale(33),
		"a negative scale": scale(0xff)}
	with := func(more map[string]func([]int8, []byte)) map[string]func([]int8, []byte) {
		for what, change := range odd {
			more[what] = change
		}
		return more
	}
	return map[gguf.Type]map[string]func([]int8, []byte){
		gguf.IQ2_XXS: with(map[string]func([]int8, []byte){"a sign": sign, "no vector": fill(43)}),
		gguf.IQ2_XS:  with(map[string]func([]int8, []byte){"a sign": sign}),
		gguf.IQ2_S:   with(map[string]func([]int8, []byte){"no vector": fill(25)}),
		gguf.IQ3_XXS: with(map[string]func([]int8, []byte){"a sign": sign, "no vector": fill(18),
			"an odd scale": scale(3)}),
		gguf.IQ3_S: with(map[string]func([]int8, []byte){"no vector": fill(3)}),
		gguf.IQ1_S: with(map[string]func([]int8, []byte){"two shifts": other, "a code": fill(3), "a shift": shift}),
		gguf.IQ1_M: with(map[string]func([]int8, []byte){"a code": fill(15), "a shift": shift}),
	}
}()
