package checkpoint

import (
	"slices"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Blocks is a matrix of a GGUF, or one per expert, in its stored form: blocks with their own scales.
type Blocks struct {
	// Stored is U8 [rows][bytes per row], with the rows in the checkpoint's order. It starts at the offset of the
	// decoded tensor.
	Stored Tensor
	Type   gguf.Type
	Scales []float32 // factors of weights: one, or one for the rows of each expert; nil = none
}

// Blocks returns the stored form of a matrix; false = the file does not store codes with group-wise scales.
func (c *Checkpoint) Blocks(t Tensor) (Blocks, bool) {
	if t.view == nil || len(t.Shape) < 2 || t.view.tensor.Less != 0 {
		return Blocks{}, false
	}
	v := *t.view
	b := Blocks{Stored: t, Type: v.tensor.From.Type, Scales: v.factors}
	if codes, ok := b.Type.Codes(); !ok || codes.Group <= 0 {
		return Blocks{}, false
	}
	v.raw, v.size = safetensors.U8, v.stored
	b.Stored.DType, b.Stored.Shape = v.raw, []int{int(v.rows), int(v.stored)}
	b.Stored.Size, b.Stored.view = v.rows*v.stored, &v
	return b, true
}

// Scale returns the factor of the weights of a row.
func (b *Blocks) Scale(row int) float32 {
	return factorOf(b.Scales, int64(row), int64(b.Stored.Shape[0]))
}

// Scaled reports whether a factor other than 1 multiplies weights.
func (b *Blocks) Scaled() bool {
	return slices.ContainsFunc(b.Scales, func(x float32) bool { return x != 1 })
}
