package model

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// lookup returns every tensor of d with its shape, as in a valid checkpoint.
func lookup(d *Description) map[string][]int {
	m := map[string][]int{}
	for _, n := range d.Tensors() {
		m[n.Name] = n.Shape
	}
	return m
}

func has(m map[string][]int) func(string) ([]int, bool) {
	return func(name string) ([]int, bool) { s, ok := m[name]; return s, ok }
}

func mustParse(t *testing.T, config string) *Description {
	t.Helper()
	d, err := Parse([]byte(config), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTinyBitnet(t *testing.T) {
	for dir, declared := range map[string]Declared{"tiny-bitnet": AbsMean, "tiny-bitnet-packed": Packed} {
		config := read(t, shared.Testdata(t, dir+"/config.json"))
		generation := read(t, shared.Testdata(t, dir+"/generation_config.json"))
		d, err := Parse(config, generation, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := Config{
			Hidden:       256,
			Intermediate: 688,
			Layers:       6,
			Heads:        8,
			KVHeads:      2,
			HeadDim:      32,
			Vocab:        2560,
			MaxPositions: 256,
			NormEps:      1e-5,
			Rope:         Rope{Theta: 10000, Dim: 32},
			Activation:   "relu2",
			BOS:          2552,
			EOS:          []int{2553, 2554},
		}
		if !slices.Equal(d.EOS, want.EOS) {
			t.Errorf("%s: EOS %v", dir, d.EOS)
		}
		got := d.Config
		got.EOS, want.EOS = nil, nil
		if !equalConfig(got, want) {
			t.Errorf("%s: got %+v, want %+v", dir, got, want)
		}
		if d.Quant.Declared != declared || d.Quant.ScaleDivides {
			t.Errorf("%s: quant %+v", dir, d.Quant)
		}
		if d.Head != d.Embed || len(d.Blocks) != 6 ||
			d.Blocks[5].FFNSubNorm.Weight != "model.layers.5.mlp.ffn_sub_norm.weight" {
			t.Errorf("%s: names %q %q", dir, d.Head, d.Blocks[5].FFNSubNorm.Weight)
		}
		if n := len(d.Tensors()); n != 2+6*11 {
			t.Errorf("%s: %d tensors", dir, n)
		}
	}
}

func equalConfig(a, b Config) bool {
	a.EOS, b.EOS = nil, nil
	return a.Hidden == b.Hidden && a.Intermediate == b.Intermediate && a.Layers == b.Layers && a.Heads == b.Heads &&
		a.KVHeads == b.KVHeads && a.HeadDim == b.HeadDim && a.Vocab == b.Vocab && a.MaxPositions == b.MaxPositions &&
		a.NormEps == b.NormEps && a.Rope == b.Rope && a.Activation == b.Activation &&
		a.SlidingWindow == b.SlidingWindow &&
		a.NormPlusOne == b.NormPlusOne && a.EmbedScale == b.EmbedScale && a.AttnScale == b.AttnScale &&
		a.AttnSoftcap == b.AttnSoftcap && a.LogitSoftcap == b.LogitSoftcap && a.BOS == b.BOS
}

func TestSharedModels(t *testing.T) {
	for dir, declared := range map[string]Declared{
		"bitllama2-3m/packed-auto": Packed,
		"bitllama2-3m/fake-f32":    Nothing,
		"stories260k/hf-F32":       Nothing,
		"stories260k/hf-BF16":      Nothing,
	} {
		d, err := Parse(read(t, shared.Path(t, "data/models/"+dir+"/config.json")), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Quant.Declared != declared || d.Head != d.Embed || d.BOS != 1 || !slices.Equal(d.EOS, []int{2}) {
			t.Errorf("%s: %+v", dir, d)
		}
	}
}

const smallLlama = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":96,
"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":50,"max_position_embeddings":128,
"rms_norm_eps":1e-6,"hidden_act":"silu"}`

// with changes one key of the small model: value "" removes it.
func with(key, value string) string {
	fields := strings.Split(strings.Trim(strings.ReplaceAll(smallLlama, "\n", ""), "{}"), ",")
	fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, `"`+key+`"`) })
	if value != "" {
		fields = append(fields, `"`+key+`":`+value)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func TestLlama(t *testing.T) {
	d := mustParse(t, smallLlama)
	if d.Family != "llama" || d.Head != "lm_head.weight" || d.HeadDim != 16 ||
		d.Rope != (Rope{Theta: 10000, Dim: 16}) ||
		d.BOS != 1 || !slices.Equal(d.EOS, []int{2}) {
		t.Errorf("%+v", d)
	}
	if d = mustParse(t, with("head_dim", "32")); d.HeadDim != 32 || d.Blocks[0].O.In != 128 {
		t.Errorf("head_dim is not read: %+v", d.Blocks[0].O)
	}
	if d = mustParse(t, with("num_key_value_heads", "null")); d.KVHeads != 4 {
		t.Errorf("KVHeads %d", d.KVHeads)
	}
	if d = mustParse(t, with("tie_word_embeddings", "true")); d.Head != d.Embed {
		t.Errorf("tied head is %q", d.Head)
	}
	if d = mustParse(t, with("attention_bias", "true")); d.Blocks[1].K.Bias != "model.layers.1.self_attn.k_proj.bias" ||
		d.Blocks[1].Up.Bias != "" {
		t.Errorf("bias %q %q", d.Blocks[1].K.Bias, d.Blocks[1].Up.Bias)
	}
	if d = mustParse(t, with("eos_token_id", "[7, 9, 7]")); !slices.Equal(d.EOS, []int{7, 9}) {
		t.Errorf("EOS %v", d.EOS)
	}
	if d = mustParse(t, with("eos_token_id", "-1")); d.EOS != nil {
		t.Errorf("EOS %v", d.EOS)
	}
	if d, err := Parse([]byte(smallLlama), []byte(`{"eos_token_id":9}`), nil); err != nil ||
		!slices.Equal(d.EOS, []int{9}) {
		t.Errorf("EOS beside generation_config.json: %v, %v", d.EOS, err)
	}
	if d = mustParse(t, with("architectures", "null")); d.Family != "llama" {
		t.Errorf("family by model_type: %q", d.Family)
	}
	if d = mustParse(t, with("quantization_config",
		`{"quant_method":"bitnet","modules_to_not_convert":null}`)); d.Quant.Declared != Packed ||
		!d.Quant.ScaleDivides {
		t.Errorf("quant %+v", d.Quant)
	}
}

// TestRopeKeys: old and new keys are equivalent.
func TestRopeKeys(t *testing.T) {
	llama3 := Rope{Theta: 500000, Dim: 16, Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	const scaling = `"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192`
	for config, want := range map[string]Rope{
		with("rope_theta", `500000.0,"rope_scaling":{`+scaling+`}`):  llama3,
		with("rope_parameters", `{"rope_theta":500000,`+scaling+`}`): llama3,
		with("rope_scaling", `{"type":"linear","factor":2}`): {Theta: 10000, Dim: 16,
			Linear: 2},
		with("rope_scaling", `null,"partial_rotary_factor":1.0`):                            {Theta: 10000, Dim: 16},
		with("rope_parameters", `{"rope_type":"default","rope_theta":5,"rope_unknown":[]}`): {Theta: 5, Dim: 16},
	} {
		if d := mustParse(t, config); d.Rope != want {
			t.Errorf("%s\ngot  %+v\nwant %+v", config, d.Rope, want)
		}
	}
}

// TestRefused has hostile configurations: each breaks one rule; the class of the error and a word of its text are
// fixed.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		config string
		class  error
		word   string
	}{
		{with("num_attention_heads", "0"), pack.ErrCorrupt, "num_attention_heads"},                   // C01
		{with("num_attention_heads", "5"), pack.ErrCorrupt, "does not divide hidden_size"},           // C03
		{with("num_key_value_heads", "3"), pack.ErrCorrupt, "num_key_value_heads"},                   // C03
		{with("num_key_value_heads", "0"), pack.ErrCorrupt, "num_key_value_heads"},                   // C01
		{with("hidden_size", "2147483648"), pack.ErrLimit, "hidden_size"},                            // C02
		{with("hidden_size", "99999999999999999999"), pack.ErrCorrupt, "hidden_size"},                // C02
		{with("max_position_embeddings", "1099511627776"), pack.ErrLimit, "max_position_embeddings"}, // C04
		{with("rms_norm_eps", "NaN"), pack.ErrCorrupt, "rms_norm_eps is NaN"},                        // C05
		{with("rope_theta", "-Infinity"), pack.ErrCorrupt, "rope_theta is -Infinity"},                // C05
		{with("rope_theta", "1e999"), pack.ErrCorrupt, "too large"},                                  // C05
		{smallLlama + strings.Repeat(" ", maxConfigBytes), pack.ErrLimit, "bytes of JSON"},           // C06
		{with("rope_theta", "0"), pack.ErrCorrupt, "rope_theta"},                                     // C08
		{with("rope_theta", "-1.5"), pack.ErrCorrupt, "rope_theta"},                                  // C08
		{with("rms_norm_eps", "0"), pack.ErrCorrupt, "rms_norm_eps"},                                 // C08
		// C08, 0 as float32
		{with("rms_norm_eps", "1e-60"), pack.ErrCorrupt, "rms_norm_eps"},
		{with("rms_norm_eps", "null"), pack.ErrCorrupt, "rms_norm_eps is missing"}, // C08
		{with("num_hidden_layers", "100000"), pack.ErrLimit, "num_hidden_layers"},  //
		{with("hidden_size", "64,\"hidden_size\":64"), pack.ErrCorrupt, "twice"},   //
		// also in objects that are not read
		{with("x", `{"a":1,"a":1}`), pack.ErrCorrupt, "twice"},
		{with("head_dim", "7"), pack.ErrCorrupt, "even"},                                             //
		{with("hidden_act", `"mish"`), pack.ErrUnsupported, "mish"},                                  //
		{with("hidden_act", "null"), pack.ErrCorrupt, "hidden_act"},                                  //
		{with("vocab_size", `"50"`), pack.ErrCorrupt, "vocab_size"},                                  //
		{with("vocab_size", ""), pack.ErrCorrupt, "vocab_size is missing"},                           //
		{with("eos_token_id", "50"), pack.ErrCorrupt, "eos_token_id"},                                //
		{with("eos_token_id", "[1, -2]"), pack.ErrCorrupt, "eos_token_id"},                           //
		{with("rope_scaling", `{"type":"spiral","factor":4}`), pack.ErrUnsupported, "spiral"},        //
		{with("rope_scaling", `{"rope_type":"llama3","factor":8}`), pack.ErrCorrupt, "rope_scaling"}, //
		{with("rope_scaling", `[]`), pack.ErrCorrupt, "rope_scaling"},                                //
		{with("quantization_config", `{"quant_method":"bitnet","linear_class":"x"}`), pack.ErrUnsupported,
			"autobitlinear"},
		{with("quantization_config", `{"quant_method":"bitnet","use_rms_norm":true}`), pack.ErrUnsupported,
			"use_rms_norm"},
		{with("architectures", `["T5ForConditionalGeneration"]`), pack.ErrUnsupported, "BitNetForCausalLM"},
		{with("architectures", `[]`)[:40], pack.ErrCorrupt, "ends"},
		{`[]`, pack.ErrCorrupt, "object"},
		{``, pack.ErrCorrupt, "the file is empty"},
		{`{}`, pack.ErrCorrupt, "architectures"},
		{smallLlama + "x", pack.ErrCorrupt, "after the end"},
		{strings.Repeat("[", 1000), pack.ErrLimit, "nested"},
	} {
		_, err := Parse([]byte(c.config), nil, nil)
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.word) ||
			!strings.HasPrefix(err.Error(), "config.json: ") {
			t.Errorf("%.300s\ngot %v, want %v with %q", c.config, err, c.class, c.word)
		}
	}
	if _, err := Parse([]byte(smallLlama), []byte(`{"eos_token_id":99}`), nil); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("generation_config: %v", err)
	}
}

// TestRefusalListsEverything: the list in the error message comes from the families themselves.
func TestRefusalListsEverything(t *testing.T) {
	_, err := Parse([]byte(`{"architectures":["Nobody"]}`), nil, nil)
	for _, f := range Families() {
		for _, a := range f.Architectures {
			if !strings.Contains(err.Error(), a) {
				t.Errorf("%v does not name %s", err, a)
			}
		}
	}
}

// TestCheck: every tensor that is missing or has a wrong shape is named.
func TestCheck(t *testing.T) {
	for _, config := range []string{smallLlama, with("quantization_config", `{"quant_method":"bitnet"}`)} {
		d := mustParse(t, config)
		for _, n := range d.Tensors() {
			m := lookup(d)
			delete(m, n.Name)
			if _, err := Parse([]byte(config), nil, has(m)); !errors.Is(err, pack.ErrCorrupt) ||
				!strings.Contains(err.Error(), n.Name) {
				t.Errorf("without %s: %v", n.Name, err)
			}
			m = lookup(d)
			m[n.Name] = append([]int{n.Shape[0] + 1}, n.Shape[1:]...) // C07 for the embedding
			if _, err := Parse([]byte(config), nil, has(m)); !errors.Is(err, pack.ErrCorrupt) ||
				!strings.Contains(err.Error(), n.Name) {
				t.Errorf("with a wrong %s: %v", n.Name, err)
			}
			if n.Linear {
				m[n.Name] = n.PackedShape()
				_, err := Parse([]byte(config), nil, has(m))
				if packed := d.Quant.Declared == Packed; (err == nil) != packed {
					t.Errorf("packed shape of %s, declared %q: %v", n.Name, d.Quant.Declared, err)
				}
			}
		}
		if _, err := Parse([]byte(config), nil, has(lookup(d))); err != nil {
			t.Errorf("sound checkpoint: %v", err)
		}
	}
}
