package hf

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// Short convolutions in place of attention (LFM2).

// ConvPart has the weights of a convolution, [channels, width]; a checkpoint has a dimension of 1 between them.
const ConvPart = "shortconv.conv"

// Keys of convolutions, after the name of the architecture.
const (
	convWidth   = ".shortconv.l_cache"
	headCountKV = ".attention.head_count_kv"
)

// keyHeads returns the number of key/value heads. In architectures with convolutions it is a list, which attends
// checks.
func (k *keys) keyHeads(family *family) int64 {
	v, _ := k.get(headCountKV)
	if list, ok := v.Ints(); family.convs && ok {
		return slices.Max(append(list, 0))
	}
	if n, ok := k.count(headCountKV); ok {
		return n
	}
	return k.must(".attention.head_count")
}

// attends returns which blocks have attention: those with key/value heads.
func (k *keys) attends() []bool {
	v, _ := k.get(headCountKV)
	heads, ok := v.Ints()
	layers, most := k.layers(), slices.Max(append(heads, 0))
	switch {
	case !ok || int64(len(heads)) != layers:
		k.fail(pack.ErrCorrupt, "key %q must have a number for each of %d blocks", k.name(headCountKV), layers)
	case most == 0:
		k.fail(pack.ErrUnsupported, "key %q has no block with attention", k.name(headCountKV))
	}
	if k.err != nil {
		return nil
	}
	list := make([]bool, len(heads))
	for i, n := range heads {
		if list[i] = n != 0; n != 0 && n != most {
			k.fail(pack.ErrUnsupported, "key %q differs between layers (%d and %d)", k.name(headCountKV), n, most)
		}
	}
	return list
}

// convolutions sets which blocks have one, and its width. Of this architecture, only a tokenizer of audio has windows,
// and no model predicts further tokens.
func convolutions(k *keys, c map[string]any) {
	var types []string
	for _, attends := range k.attends() {
		types = append(types, map[bool]string{true: "full_attention", false: "conv"}[attends])
	}
	c["layer_types"], c["conv_L_cache"], c["conv_bias"] = types, k.must(convWidth), false
	delete(c, "hidden_act")
	for _, key := range []string{slidingWindow, furtherBlocks} {
		if n, _ := k.count(key); n != 0 {
			k.fail(pack.ErrUnsupported, "key %q is %d, must be 0", k.name(key), n)
		}
	}
}

func lfm2Config(_ *File, k *keys, c map[string]any) {
	convolutions(k, c)
	c["block_auto_adjust_ff_dim"] = false
}

func lfm2moeConfig(_ *File, k *keys, c map[string]any) {
	convolutions(k, c)
	mixtureOf(k, c, "num_experts")
	c["moe_intermediate_size"], c["norm_topk_prob"], c["use_expert_bias"] = k.must(expertWidth), true, true
	c["num_dense_layers"], _ = k.count(leadingDense)
}

// fitsConvs: llama.cpp demands the width of convolutions, and a bias for the choice of experts. It stops where no block
// has attention.
func fitsConvs(d *model.Description) error {
	switch d.AttentionLayers() {
	case d.Layers:
		return refuse("no layer has a convolution; llama.cpp demands its width")
	case 0:
		return refuse("no layer has attention; llama.cpp does not compute such a model")
	}
	for i := range d.Blocks {
		if x := d.Blocks[i].Experts; x != nil && x.ChoiceBias == "" {
			return refuse("no bias for the choice of experts (use_expert_bias false); llama.cpp demands it")
		}
	}
	return nil
}
