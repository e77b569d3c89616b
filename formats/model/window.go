package model

import "github.com/lowpack/lowpack/pack"

const fullAttention, slidingAttention = "full_attention", "sliding_attention"

// windows reads sliding_window and which blocks it applies to: newer files list them in layer_types, older ones follow
// the family's rule.
func windows(k *keys, d *Description, local func(block int) bool) {
	d.SlidingWindow = k.countOr("sliding_window", maxPositions, 0)
	types := layerTypes(k, d)
	any := false
	for i := range d.Blocks {
		is := local(i)
		if types != nil {
			is = types[i] == slidingAttention
		}
		d.Blocks[i].Local = is
		any = any || is
	}
	switch {
	case any && d.SlidingWindow == 0:
		k.fail(pack.ErrCorrupt, "blocks have %s, but sliding_window is missing", slidingAttention)
	case !any:
		d.SlidingWindow = 0
	}
}

// layerTypes reads layer_types, one per block; nil if absent.
func layerTypes(k *keys, d *Description) []string {
	return kindsOfLayers(k, d, fullAttention, slidingAttention)
}

// kindsOfLayers is layerTypes of a family with two other kinds of layers.
func kindsOfLayers(k *keys, d *Description, one, other string) []string {
	types := onePerLayer(k, d, "layer_types")
	for i, t := range types {
		if t != one && t != other {
			k.fail(pack.ErrUnsupported, "layer_types[%d] is %.40q; supported are %s and %s", i, t, one, other)
		}
	}
	return types
}

// onePerLayer reads a list of texts, one per block; nil if absent.
func onePerLayer(k *keys, d *Description, name string) []string {
	list := k.texts(name)
	if list != nil && len(list) != len(d.Blocks) {
		k.fail(pack.ErrCorrupt, "%s has %d entries for %d layers", name, len(list), len(d.Blocks))
		return nil
	}
	return list
}

// oneWindow is for families whose sliding window, if any, applies to all blocks.
func oneWindow(k *keys, d *Description) {
	d.SlidingWindow = k.countOr("sliding_window", maxPositions, 0)
	for i := range d.Blocks {
		d.Blocks[i].Local = d.SlidingWindow > 0
	}
	checkLayerTypes(k, d)
}

// checkLayerTypes is for families in which transformers does not read layer_types. A file whose layer_types contradict
// the model is rejected: the intended model is unknown.
func checkLayerTypes(k *keys, d *Description) {
	for i, t := range layerTypes(k, d) {
		if (t == slidingAttention) != d.Blocks[i].Local {
			k.fail(pack.ErrUnsupported,
				"layer_types[%d] is %s, which transformers ignores in this architecture; remove layer_types, or name "+
					"the architecture that has them", i, t)
			return
		}
	}
}
