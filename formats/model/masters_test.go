package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestMasters: what programs of training write to config.json says that floats are to be quantized; a
// quantization_config says it better.
func TestMasters(t *testing.T) {
	const config = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3",` + textNumbers + `}`
	for keys, want := range map[string]string{
		``: "",
		`"w_bits":0,"quant_method":"sherry","granularity":"per_group","group_size":128,"N":3,"M":4,`: `w_bits is 0 and ` +
			`quant_method "sherry"`,
		`"w_bits":0,"quant_method":"ultraquantv3",`: `quant_method "ultraquantv3"`,
		`"w_bits":4,`:                        "w_bits is 4",
		`"w_bits":16,`:                       "",
		`"w_bits":32,`:                       "",
		`"w_bits":16,"quant_method":"None",`: "",
		`"quant_method":"twn",`:              `quant_method is "twn"`,
		`"is_bitnet_config":true,`:           "is_bitnet_config is true",
		`"is_bitnet_config":false,`:          "",
	} {
		d := mustParse(t, strings.Replace(config, "{", "{"+keys, 1))
		if (d.Quant.Declared == Masters) != (want != "") || !strings.Contains(d.Quant.Masters, want) ||
			want == "" && d.Quant.Masters != "" {
			t.Errorf("%s: %q, %q", keys, d.Quant.Declared, d.Quant.Masters)
		}
	}
	d := mustParse(t, strings.Replace(config, "{", `{"is_bitnet_config":true,"quantization_config":{"quant_method":`+
		`"bitnet"},`, 1))
	if d.Quant.Declared != Packed || d.Quant.Masters != "" {
		t.Errorf("%q, %q", d.Quant.Declared, d.Quant.Masters)
	}
}

// TestBitNetBits: other widths than those of BitNet b1.58, and its second version, are refused by name.
func TestBitNetBits(t *testing.T) {
	for old, c := range map[string][2]string{
		`"input_bits":8`:                     {`"input_bits":4`, "input_bits is 4; supported are activations of 8 bits"},
		`"weight_bits":1`:                    {`"weight_bits":2`, "weight_bits is 2"},
		`"architectures":["BitnetForCausal`:  {`"architectures":["BitNet2ForCausal`, "BitNet v2, which rotates"},
		`"architectures":["BitnetForCausalL`: {`"architectures":["BitNetV2ForCausalL`, "BitNet v2, which rotates"},
	} {
		text := strings.Replace(bitnetXL, old, c[0], 1)
		if text == bitnetXL {
			t.Fatalf("no %s", old)
		}
		if _, err := Parse([]byte(text), nil, nil); !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	if d := mustParse(t, bitnetXL); len(d.Unread) > 0 {
		t.Errorf("%q", d.Unread)
	}
}
