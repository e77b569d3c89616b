package convert

import (
	"errors"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
)

// TestScaledBlocks: a scale of the tensor is a factor of single scales, but neither of scales with factors of their own
// nor of minima.
func TestScaledBlocks(t *testing.T) {
	for kind, held := range map[gguf.Type]bool{gguf.Q4_0: true, gguf.Q8_0: true, gguf.Q3_K: false, gguf.Q4_K: false,
		gguf.Q6_K: false} {
		codes, _ := kind.Codes()
		b := &blocks{Blocks: checkpoint.Blocks{Type: kind, Scale: 2}, codes: codes, minima: codes.Minima}
		_, err := b.group(make([]int8, codes.Group), 0.5, 0)
		var inexact notExact
		if errors.As(err, &inexact) == held || (err == nil) != held {
			t.Errorf("%s: %v", kind, err)
		}
		b.Scale = 1
		if _, err := b.group(make([]int8, codes.Group), 0.5, 0); err != nil {
			t.Errorf("%s without one: %v", kind, err)
		}
	}
}
