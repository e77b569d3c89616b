package hf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
)

// mixtureKeys returns the keys of an architecture with experts.
func mixtureKeys(arch string, more ...gguf.KV) *gguf.Header {
	number := func(key string, n uint32) gguf.KV { return gguf.KV{Key: arch + key, Value: gguf.U32Value(n)} }
	return keysOf(arch, append(more, number(".expert_count", 8), number(".expert_used_count", 3),
		number(".expert_feed_forward_length", 48), number(".expert_shared_feed_forward_length", 80))...)
}

// TestMixtures: the numbers of experts, and the normalization of their weights in each architecture.
func TestMixtures(t *testing.T) {
	factor := func(key string, f float32) gguf.KV {
		return gguf.KV{Key: "granitemoe" + key, Value: gguf.FloatValue(f)}
	}
	granite := []gguf.KV{factor(".attention.scale", 0.125), factor(".embedding_scale", 12),
		factor(".residual_scale", 0.22), factor(".logit_scale", 6)}
	for arch, c := range map[string]struct {
		want string
		more []gguf.KV
	}{
		"llama":      {"mixtral true 96 0", nil},
		"qwen2moe":   {"qwen2_moe false 48 80", nil},
		"qwen3moe":   {"qwen3_moe true 48 0", nil},
		"olmoe":      {"olmoe false 96 0", nil},
		"granitemoe": {"granitemoe true 96 0", granite},
		"gpt-oss":    {"gpt_oss true 48 0", nil},
	} {
		d := describe(t, fileOf(mixtureKeys(arch, c.more...), nil, "output.weight"))
		b := &d.Blocks[5]
		if b.Experts == nil {
			t.Fatalf("%s: no experts", arch)
		}
		got := fmt.Sprint(d.Family, " ", b.Experts.Normalize, " ", b.Experts.Up.Out, " ", b.Gate.Out)
		if got != c.want ||
			b.Experts.Count != 8 || b.Experts.Chosen != 3 {
			t.Errorf("%s: %s, %d of %d; want %s", arch, got, b.Experts.Chosen, b.Experts.Count, c.want)
		}
		if arch == "granitemoe" && (d.AttnScale != 0.125 || d.EmbedScale != 12 || d.ResidualScale != 0.22 ||
			d.LogitDivisor != 6) {
			t.Errorf("%+v", d.Config)
		}
		if arch == "gpt-oss" && (d.SlidingWindow != 32 || !d.Blocks[0].Local || d.Blocks[1].Local) {
			t.Errorf("%+v", d.Config)
		}
	}
	for says, h := range map[string]*gguf.Header{
		"qwen3.expert_count":         mixtureKeys("qwen3"),
		"qwen3moe.expert_count":      keysOf("qwen3moe"),
		"granitemoe.attention.scale": mixtureKeys("granitemoe", granite[1:]...),
		"must be 2": mixtureKeys("gpt-oss",
			gguf.KV{Key: "gpt-oss.attention.sliding_window_pattern", Value: gguf.U32Value(3)}),
	} {
		if _, err := fileOf(h, nil).Texts(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}

// TestTruncate: YaRN's ramp ends are rounded only in a gpt-oss that declares it.
func TestTruncate(t *testing.T) {
	yarn := []gguf.KV{{Key: "gpt-oss.rope.scaling.type", Value: gguf.TextValue("yarn")},
		{Key: "gpt-oss.rope.scaling.factor", Value: gguf.FloatValue(32)},
		{Key: "gpt-oss.rope.scaling.original_context_length", Value: gguf.U32Value(4096)}}
	if y := describe(t, fileOf(mixtureKeys("gpt-oss", yarn...), nil, "output.weight")).Rope.Yarn; y == nil || y.Whole ||
		y.Factor != 32 {
		t.Errorf("%+v", y)
	}
	said := append(yarn, gguf.KV{Key: "gpt-oss.rope.scaling.yarn_truncate", Value: gguf.BoolValue(true)})
	if y := describe(t, fileOf(mixtureKeys("gpt-oss", said...), nil, "output.weight")).Rope.Yarn; y == nil || !y.Whole {
		t.Errorf("%+v", y)
	}
}
