package quantized_test

import (
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// TestFBGEMM: weights have a scale per row and become BF16, whatever the dtype of the model is.
func TestFBGEMM(t *testing.T) {
	f := sound(fbConfig)
	for i := range f["x.weight"].data {
		f["x.weight"].data[i] = 0x3f // 1.875
	}
	f.add("x.weight_scale", safetensors.F32, floats(8, 0.1, 0.01), 8, 1)
	b, err := f.values(strings.Replace(fbConfig, "{", `{"dtype":"float16",`, 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range bfloats(b) {
		if want := round16(1.875 * (0.1 + 0.01*float32(i/16))); v != want {
			t.Errorf("weight %d is %v, want %v", i, v, want)
		}
	}
}

// TestFBGEMMRefused: what the configuration and the tensors say of each other must agree.
func TestFBGEMMRefused(t *testing.T) {
	for _, c := range []struct {
		module, config string
		change         func(f files, module string)
		want           string // "" = accepted
	}{
		{"x", fbConfig, func(f files, m string) { f.add(m+".input_scale_ub", safetensors.F32, floats(1, 1200, 0), 1) },
			""},
		{"xy", fbConfig, func(files, string) {}, ""},
		{"yx", fbConfig, func(files, string) {}, ""},
		{"x.y", fbConfig, func(files, string) {}, "names it"},
		{"y.x", fbConfig, func(files, string) {}, "names it"},
		{"y", fbConfig, func(files, string) {}, "names it"},
		{"y", strings.Replace(fbConfig, `,"modules_to_not_convert":["lm_head","y"]`, "", 1), func(files, string) {},
			""},
		{"x", strings.Replace(fbConfig, `["lm_head","y"]`, `"y"`, 1), func(files, string) {}, "modules_to_not_convert"},
		{"x", strings.Replace(fbConfig, `1200.0`, `"1200"`, 1), func(files, string) {}, "activation_scale_ub"},
		{"x", fbConfig, func(f files, m string) { delete(f, m+".weight_scale") }, `"x.weight_scale" is missing`},
		{"x", fbConfig, func(f files, m string) { f.add(m+".weight_scale", safetensors.F32, floats(1, 1, 0)) },
			`"x.weight_scale" has shape []`},
		{"x", fbConfig, func(f files, m string) { f.add("experts.gate_up_proj", "F8_E4M3", make([]byte, 64), 2, 4, 8) },
			`"experts.gate_up_proj_scale" is missing`},
		{"x", fbConfig, func(f files, m string) { f.add("experts.gate_up_proj", "F8_E4M3", make([]byte, 64), 8, 8) },
			"want that of all experts"},
	} {
		f := files{}
		for name, x := range sound(fbConfig) {
			f.add(c.module+strings.TrimPrefix(name, "x"), x.DType, x.data, x.Shape...)
		}
		c.change(f, c.module)
		s, err := quantized.Parse([]byte(c.config), nil)
		for name := range f {
			if err == nil {
				_, err = s.Values([]string{name}, f.lookup, f.read)
			}
		}
		if c.want == "" && err != nil || c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s of %s: %v, want %q", c.module, c.config, err, c.want)
		}
	}
}
