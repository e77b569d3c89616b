package model

import (
	"slices"
	"strings"
	"testing"
)

// TestEarly: what the families before Llama are made of, and what of them is refused.
func TestEarly(t *testing.T) {
	gpt2, pythia, opt, bloom := early[0], early[1], early[2], early[3]
	d := mustParse(t, gpt2)
	b := d.Blocks[1]
	if d.Positions != "transformer.wpe.weight" || !b.NoRope || !b.Q.Turned ||
		b.V.Rows != (Rows{From: 1536, To: 2304}) ||
		b.V.Bias != "transformer.h.1.attn.c_attn.bias" || d.Intermediate != 3072 || d.Head != d.Embed {
		t.Errorf("%+v", b)
	}
	d = mustParse(t, pythia)
	b = d.Blocks[1]
	if d.Rope.Dim != 16 || !d.Parallel || b.FFNNorm == b.AttnNorm || d.Activation != GELU ||
		d.Head != "embed_out.weight" ||
		b.K.Rows != (Rows{From: 64, To: 2304, Step: 192, Run: 64}) || b.K.Rows.Len() != 768 {
		t.Errorf("%+v", b)
	}
	if d = mustParse(t, opt); d.FirstPosition != 2 || d.Activation != ReLU || d.NormEps != 1e-5 {
		t.Errorf("%+v", d.Config)
	}
	if d = mustParse(t, bloom); !d.ALiBi || d.EmbedNorm.Bias == "" || d.Heads != 16 || d.MaxPositions != 2048 {
		t.Errorf("%+v", d.Config)
	}
	for config, says := range map[string]string{
		change(gpt2, "hidden_size", "512"):                                "two names of one number",
		change(gpt2, "scale_attn_by_inverse_layer_idx", "true"):           "scale_attn_by_inverse_layer_idx",
		change(gpt2, "num_key_value_heads", "4"):                          "its own keys",
		change(pythia, "rope_theta", "20000"):                             "rotary_emb_base",
		change(opt, "do_layer_norm_before", "false"):                      "norms behind the residuals",
		change(opt, "word_embed_proj_dim", "512"):                         "word_embed_proj_dim",
		change(bloom, "apply_residual_connection_post_layernorm", "true"): "outputs of norms",
		change(next[0], "attn_output_gate", "false"):                      "attn_output_gate",
		change(next[0], "linear_num_key_heads", "12"):                     "does not divide",
		change(next[0], "hidden_act", `"relu"`):                           "only silu",
		change(next[3], "num_experts_per_tok", "3"):                       "has two",
		strings.Replace(next[3], `"longrope"`, `"linear"`, 1):             "supported are default and longrope",
		change(next[4], "mamba_proj_bias", "true"):                        "ssm_in_multiplier are not supported",
		change(recurrentMoE[0], "num_experts_per_tok", "33"):              "of 32 experts",
		change(recurrentMoE[1], "position_embedding_type", `"alibi"`):     "position_embedding_type",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestOldNames: the first files of GPT-2 and BLOOM have no prefix, and those of GPT-2 the causal mask.
func TestOldNames(t *testing.T) {
	for _, config := range []string{early[0], early[3]} {
		config = shallow(config, "2")
		d := mustParse(t, config)
		old := map[string][]int{}
		for name, shape := range lookup(d) {
			old[strings.TrimPrefix(name, "transformer.")] = shape
		}
		o, err := Parse([]byte(config), nil, has(old))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimPrefix(d.Blocks[1].O.Weight, "transformer."); o.Blocks[1].O.Weight != want ||
			o.Blocks[1].O.Bias == d.Blocks[1].O.Bias || o.FinalNorm.Bias != "ln_f.bias" {
			t.Errorf("%+v", o.Blocks[1])
		}
		mask := func(s Spare) bool { return s.Prefix == "h.1.attn.bias" }
		if d.Family == "gpt2" && !slices.ContainsFunc(o.Spare, mask) {
			t.Errorf("%v", o.Spare)
		}
	}
}

// TestRows: the rows of linear layers that share a tensor, as they are counted and found.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		rows Rows
		want []int
	}{
		{Rows{From: 2, To: 5}, []int{2, 3, 4}},
		{Rows{From: 1, To: 6, Step: 2}, []int{1, 3, 5}},
		{Rows{From: 2, To: 12, Step: 6, Run: 2}, []int{2, 3, 8, 9}},
		{Rows{From: 4, To: 12, Step: 6, Run: 2}, []int{4, 5, 10, 11}},
		{Rows{From: 0, To: 12, Step: 6, Run: 2}, []int{0, 1, 6, 7}},
	} {
		var got []int
		for i := range c.rows.Len() {
			got = append(got, c.rows.At(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c.rows, got)
		}
		for row := range 14 {
			i, ok := c.rows.Index(row)
			if at := slices.Index(c.want, row); ok != (at >= 0) || ok && i != at {
				t.Errorf("%+v: row %d is number %d, %v", c.rows, row, i, ok)
			}
		}
	}
}
