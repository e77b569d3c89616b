package export

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestConvolutions: convolutions are written as llama.cpp reads them, in F32 and with two dimensions, beside codes of
// linear layers; blocks with a convolution have no key/value heads.
func TestConvolutions(t *testing.T) {
	source := packedOf(t, denseModel(t, "lfm2-1.2b"), packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true})
	path, _ := exported(t, source)
	h := headerOf(t, path)
	width, _ := h.Get("lfm2.shortconv.l_cache")
	heads, _ := h.Get("lfm2.attention.head_count_kv")
	n, _ := width.Int()
	if list, _ := heads.Ints(); n != 3 || !slices.Equal(list, []int64{0, 0, 1, 0}) {
		t.Errorf("a width of %d, heads %v", n, list)
	}
	got := map[string]string{}
	for _, x := range h.Tensors {
		got[x.Name] = fmt.Sprint(x.Type, x.Shape)
	}
	for name, want := range map[string]string{
		"token_embd_norm.weight": "F32 [64]", "blk.0.shortconv.conv.weight": "F32 [64 3]",
		"blk.0.shortconv.in_proj.weight": "Q4_0 [192 64]", "blk.3.shortconv.out_proj.weight": "Q4_0 [64 64]",
		"blk.2.attn_k.weight": "Q4_0 [16 64]", "blk.2.attn_q_norm.weight": "F32 [16]", "output_norm.weight": "",
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}

// TestRefusedConvolutions: what llama.cpp does not load, or computes otherwise, is refused by name.
func TestRefusedConvolutions(t *testing.T) {
	const attends = `"full_attn_idxs": \[[^]]*\]`
	const dense, experts = "lfm2-1.2b", "lfm2-8b-a1b"
	for _, c := range []struct {
		like, says string
		changes    []string
	}{
		{dense, "conv.bias", []string{`"conv_bias": false`, `"conv_bias": true`}},
		{dense, "no layer has a convolution", []string{attends, `"full_attn_idxs": [0, 1, 2, 3]`}},
		{dense, "no layer has attention", []string{attends, `"full_attn_idxs": []`}},
		{dense, "4 heads of 32 values", []string{`"hidden_size"`, `"head_dim": 32, "hidden_size"`}},
		{experts, "use_expert_bias", []string{`"use_expert_bias": true`, `"use_expert_bias": false`}},
		{experts, "multiplied by 2.5 (routed_scaling_factor)", []string{`"routed_scaling_factor": 1.0`,
			`"routed_scaling_factor": 2.5`}},
		{experts, "norm_topk_prob", []string{`"norm_topk_prob": true`, `"norm_topk_prob": false`}},
		{experts, "layer 0 has no experts", []string{`"num_dense_layers": 2`, `"num_dense_layers": 4`}},
	} {
		source := packedOf(t, rewritten(t, c.like, c.like, c.changes...), packed.Recipe{})
		_, err := GGUF(t.Context(), source, filepath.Join(t.TempDir(), "m.gguf"), GGUFOptions{})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", c.like, err, c.says)
		}
	}
}
