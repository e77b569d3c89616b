package model

import "github.com/lowpack/lowpack/pack"

// everyBlock is the rule of families whose sliding window, when there is one, applies to all blocks.
func everyBlock(int) bool { return true }

// windows reads sliding_window and which blocks it applies to: layer_types says so in newer files, the family's rule in
// older ones.
func windows(k *keys, d *Description, local func(block int) bool) {
	d.SlidingWindow = k.countOr("sliding_window", maxPositions, 0)
	types := k.texts("layer_types")
	if types != nil && len(types) != d.Layers {
		k.fail(pack.ErrCorrupt, "layer_types has %d entries for %d layers", len(types), d.Layers)
		return
	}
	any := false
	for i := range d.Blocks {
		is := d.SlidingWindow > 0 && local(i)
		if types != nil {
			switch types[i] {
			case "full_attention":
				is = false
			case "sliding_attention":
				is = true
			default:
				k.fail(pack.ErrUnsupported, "layer_types[%d] is %.40q; supported are full_attention and sliding_attention", i, types[i])
			}
		}
		d.Blocks[i].Local = is
		any = any || is
	}
	switch {
	case any && d.SlidingWindow == 0:
		k.fail(pack.ErrCorrupt, "layer_types has sliding_attention, but sliding_window is missing")
	case !any:
		d.SlidingWindow = 0
	}
}
