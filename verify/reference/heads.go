package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// checkHeads checks the heads of all blocks, and what of them rotates (N75).
func checkHeads(d *model.Description) error {
	for _, s := range d.HeadShapes() {
		if min(s.KVHeads, s.HeadDim) < 1 || max(s.KVHeads, s.HeadDim) > pack.MaxDim || d.Heads%s.KVHeads != 0 {
			return fmt.Errorf("%w: model: %d heads share %d key/value heads of %d values", pack.ErrCorrupt, d.Heads,
				s.KVHeads, s.HeadDim)
		}
	}
	global, r := d.HeadShape(&model.Block{}).HeadDim, &d.Rope
	for _, n := range []struct{ dim, head int }{{r.Dim, global}, {r.LocalDim, d.HeadDim}, {r.Rotating, r.Dim}} {
		if n.dim < 0 || n.dim%2 != 0 || n.dim > n.head {
			return fmt.Errorf("%w: model: %d rotated values of a head of %d", pack.ErrCorrupt, n.dim, n.head)
		}
	}
	if d.Global != nil && (d.Latent != nil || r.LocalTheta == 0 || r.LocalDim == 0) {
		return fmt.Errorf("%w: model: heads of two sizes with latent attention, or without a rotation of their own "+
			"for blocks with a window", pack.ErrUnsupported)
	}
	return nil
}

// openHeads sets what the attention of a block computes with, without tensors.
func (b *block) openHeads(d *model.Description, from *model.Block) {
	b.shape, b.scale, b.keysAsValues = d.HeadShape(from), scaleOf(d, from), from.KeysAsValues
	b.rope, b.noRope, b.window = ropeOf(d, from), from.NoRope, windowOf(d, from)
}

// openScalar reads the factor of the residual stream behind a block (N77).
func openScalar(v packed.View, name string) (float32, error) {
	w, err := openVector(v, name, 1)
	if err != nil || w == nil {
		return 1, err
	}
	return w[0], nil
}

// multiplyStream multiplies the residual streams by the factor of a block.
func (p *pass) multiplyStream(by float32) {
	streams := p.streams
	if streams == nil {
		streams = [][][]float32{p.h}
	}
	for _, s := range streams {
		for _, h := range s {
			for i, v := range h {
				h[i] = float32(v * by)
			}
		}
	}
}
