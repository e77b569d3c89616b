package convert

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
)

// TestScaledBlocks: a scale of the tensor is a factor of single scales, but neither of scales with factors of their own
// nor of minima.
func TestScaledBlocks(t *testing.T) {
	for kind, held := range map[gguf.Type]bool{gguf.Q4_0: true, gguf.Q8_0: true, gguf.Q3_K: false, gguf.Q4_K: false,
		gguf.Q6_K: false, gguf.IQ4_NL: true, gguf.IQ4_XS: false} {
		codes, _ := kind.Codes()
		b := &blocks{Blocks: checkpoint.Blocks{Type: kind}, codes: codes, minima: codes.Minima}
		_, err := b.group(make([]int8, codes.Group), 0.5, 0, 2)
		var inexact notExact
		if errors.As(err, &inexact) == held || (err == nil) != held {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := b.group(make([]int8, codes.Group), 0.5, 0, 1); err != nil {
			t.Errorf("%s without one: %v", kind, err)
		}
	}
}

// TestRoundedScales: the scale of a tensor of NVFP4 multiplies those of groups, rounded; other types are then floats.
func TestRoundedScales(t *testing.T) {
	for kind, held := range map[gguf.Type]bool{gguf.NVFP4: true, gguf.Q4_0: false} {
		codes, _ := kind.Codes()
		b := &blocks{Blocks: checkpoint.Blocks{Type: kind}, codes: codes}
		g, err := b.group(make([]int8, codes.Group), 0.875, 0, 0.1)
		if (err == nil) != held || held && g.scale != float32(0.875)*float32(0.1) {
			t.Errorf("%s: %v, %v", kind, g, err)
		}
		if _, err := b.group(make([]int8, codes.Group), 0.25, 0, 1e-45); err == nil {
			t.Errorf("%s: a scale that underflows", kind)
		}
	}
}

// TestBlocksOfZeros: a block of scale 0 has the code 0, or keeps its codes where none is 0; 1-bit codes become floats.
func TestBlocksOfZeros(t *testing.T) {
	for kind, want := range map[gguf.Type][]int8{gguf.Q4_0: {0, 0}, gguf.IQ4_NL: {-127, 13}, gguf.IQ4_XS: {-127, 13},
		gguf.Q1_0: nil} {
		codes, _ := kind.Codes()
		b := &blocks{Blocks: checkpoint.Blocks{Type: kind}, codes: codes}
		got := []int8{-127, 13}
		g, err := b.group(got, 0, 0, 1)
		var inexact notExact
		if errors.As(err, &inexact) != (want == nil) || want != nil && !slices.Equal(got, want) || g != (group{}) {
			t.Errorf("%s: %v, %v, %v", kind, got, g, err)
		}
	}
}
