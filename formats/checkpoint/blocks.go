package checkpoint

import (
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Blocks is a matrix of a GGUF, or one per expert, in its stored form: blocks with their own scales.
type Blocks struct {
	// Stored is U8 [rows][bytes per row], with the rows in the checkpoint's order. It starts at the offset of the
	// decoded tensor.
	Stored Tensor
	Type   gguf.Type
	Scale  float32 // factor of all weights
}

// Blocks returns the stored form of a matrix; false = the file does not store codes with group-wise scales.
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
	b.Stored.DType, b.Stored.Shape = v.raw, []int{int(v.rows), int(v.stored)}
	b.Stored.Size, b.Stored.view = v.rows*v.stored, &v
	return b, true
}
