package checkpoint

import (
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Blocks is a matrix of a GGUF, or those of experts, as the file stores it, in blocks that have scales of their own.
type Blocks struct {
	// U8 [rows][bytes of a row], with the rows in the order of the checkpoint; it begins where the decoded tensor does
	Stored Tensor
	Type   gguf.Type
	Scale  float32 // multiplies all weights
}

// Blocks returns the stored form of a matrix whose decoded values t has; false if the file does not store codes with a
// scale for each group of columns.
func (c *Checkpoint) Blocks(t Tensor) (Blocks, bool) {
	if t.view == nil || len(t.Shape) < 2 || t.view.tensor.Less != 0 {
		return Blocks{}, false
	}
	v := *t.view
	b := Blocks{Stored: t, Type: v.tensor.From.Type, Scale: 1}
	if codes, ok := b.Type.Codes(); !ok || codes.Group <= 0 {
		return Blocks{}, false
	}
	if v.tensor.Scale != nil {
		b.Scale = v.scale
	}
	v.raw, v.size = safetensors.U8, v.stored
	b.Stored.DType, b.Stored.Shape, b.Stored.Size, b.Stored.view = v.raw, []int{int(v.rows),
		int(v.stored)}, v.rows*v.stored, &v
	return b, true
}
