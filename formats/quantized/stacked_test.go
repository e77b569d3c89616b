package quantized_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// TestStackedFloats: 8-bit floats of all experts in one tensor have the scales of their expert and block, wherever
// reading begins.
func TestStackedFloats(t *testing.T) {
	one := strings.Replace(fp8Config, `,"weight_block_size":[4,8]`, "", 1)
	for _, c := range []struct {
		config, name, scale string
		shape               []int // of scales
		want                func(expert, row, column int) float32
		refused             string
	}{
		{fp8Config, "x.gate_up_proj", "_scale_inv", []int{3, 2, 2},
			func(e, row, column int) float32 { return float32(1 + e*4 + row/4*2 + column/8) }, ""},
		{one, "x.gate_up_proj", "_scale_inv", []int{3, 2, 1},
			func(e, row, _ int) float32 { return float32(1 + e*2 + row/4) }, ""},
		{one, "x.down_proj", "_scale_inv", []int{3, 1, 1},
			func(e, _, _ int) float32 { return float32(1 + e) }, ""},
		{fbConfig, "x.gate_up_proj", "_scale", []int{3, 1, 16},
			func(e, _, column int) float32 { return float32(1 + e*16 + column) }, ""},
		{fbConfig, "x.down_proj", "_scale", []int{3, 16, 1},
			func(e, _, column int) float32 { return float32(1 + e*16 + column) }, ""},
		{moEightConfig, "x.gate_up_proj", "_weight_scale", nil, func(int, int, int) float32 { return 1 }, ""},
		{moRowConfig, "x.down_proj", "_weight_scale", []int{3},
			func(e, _, _ int) float32 { return float32(1 + e) }, ""},
		{moEightConfig, "x.gate_up_proj", "_weight_scale", []int{3}, nil, "want 0 dimensions"},
		{moRowConfig, "x.gate_up_proj", "_weight_scale", []int{3, 8}, nil, "want 1 dimensions"},
		{moRowConfig, "x.gate_up_proj", "_weight_scale", []int{2}, nil, "require [3]"},
		{moBlockConfig, "x.gate_up_proj", "_weight_scale", []int{3, 1, 1, 1, 1}, nil,
			"quant_algo FP8_PB_WO with experts in one tensor"},
		{moFourConfig, "x.gate_up_proj", "_weight_scale", []int{3}, nil, "its weight has type F8_E4M3"},
		{strings.Replace(moEightConfig, `"lm_head"`, `"x.*"`, 1), "x.down_proj", "_weight_scale", nil, nil,
			"declares it as not quantized"},
		{fp8Config, "x.gate_up_proj", "_scale_inv", []int{3, 2, 1}, nil, "require [3 2 2]"},
		{fp8Config, "x.gate_up_proj", "_scale", []int{3, 2, 2}, nil, `"x.gate_up_proj_scale_inv" is missing`},
		{fbConfig, "x.gate_up_proj", "_scale", []int{3, 16, 1}, nil, "require [3 1 16]"},
		{fbConfig, "x.down_proj", "_scale", []int{3, 1, 16}, nil, "require [3 16 1]"},
		{strings.Replace(fp8Config, "[4,8]", "[3,8]", 1), "x.gate_up_proj", "_scale_inv", []int{3, 3, 2}, nil,
			"not whole blocks of 3 and 8"},
		{strings.Replace(fbConfig, `"y"`, `"x"`, 1), "x.down_proj", "_scale", []int{3, 16, 1}, nil, "names it"},
	} {
		f := files{}
		f.add(c.name, "F8_E4M3", bytes.Repeat([]byte{0x38}, 3*8*16), 3, 8, 16)
		n := 1
		for _, d := range c.shape {
			n *= d
		}
		f.add(c.name+c.scale, safetensors.F32, floats(n, 1, 1), c.shape...)
		s, err := quantized.Parse([]byte(c.config), nil)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Values([]string{c.name, c.name + c.scale}, f.lookup, f.read)
		if c.refused != "" {
			if !wellSaid(err, c.refused) {
				t.Errorf("%s: %v, want %q", c.name, err, c.refused)
			}
			continue
		}
		v := found[c.name]
		if err != nil || v == nil || !slices.Equal(v.Shape, []int{3, 8, 16}) || v.Bytes() != 2*3*8*16 {
			t.Fatalf("%s: %+v, %v", c.name, v, err)
		}
		whole := make([]byte, v.Bytes())
		if err := v.ReadAt(whole, 0, f.read); err != nil {
			t.Fatal(err)
		}
		for i, got := range bfloats(whole) {
			if want := c.want(i/128, i/16%8, i%16); got != want {
				t.Errorf("%s %v: weight %d is %v, want %v", c.name, c.shape, i, got, want)
			}
		}
		part := make([]byte, 100)
		if err := v.ReadAt(part, 301, f.read); err != nil || !bytes.Equal(part, whole[301:][:100]) {
			t.Errorf("%s: bytes from 301 on: %v", c.name, err)
		}
		f.add(c.name+c.scale, safetensors.F32, slices.Concat(floats(n-1, 1, 1), []byte{0, 0, 0x80, 0x7f}), c.shape...)
		if err := v.ReadAt(whole, 0, f.read); !wellSaid(err, "is +Inf") {
			t.Errorf("%s: a scale that is not finite: %v", c.name, err)
		}
	}
}

// TestStackedRounds: the scale of all experts of ModelOpt is rounded to the type of the weights before it multiplies.
func TestStackedRounds(t *testing.T) {
	f := files{}
	f.add("x.down_proj", "F8_E4M3", bytes.Repeat([]byte{0x3f}, 3*8*16), 3, 8, 16)
	f.add("x.down_proj_weight_scale", safetensors.F32, floats(1, 1.00390625, 0)) // halfway to 1.0078125
	s, err := quantized.Parse([]byte(moEightConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Values([]string{"x.down_proj"}, f.lookup, f.read)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if err := found["x.down_proj"].ReadAt(b, 4, f.read); err != nil || bfloats(b)[0] != 1.875 {
		t.Errorf("%v, %v; want 1.875", bfloats(b), err)
	}
}

// TestMXFP8: transformers reads this method as it reads FP8.
func TestMXFP8(t *testing.T) {
	f := files{}
	f.add("x.weight", "F8_E4M3", bytes.Repeat([]byte{0x3f}, 512), 8, 64)
	f.add("x.weight_scale_inv", safetensors.U8, bytes.Repeat([]byte{126, 129}, 8), 8, 2)
	b, err := f.values(`{"dtype":"bfloat16","quantization_config":{"quant_method":"mxfp8","weight_block_size":[1,32],` +
		`"scale_fmt":"ue8m0"}}`)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range bfloats(b) {
		if want := [2]float32{1.875 / 2, 1.875 * 4}[i/32%2]; v != want {
			t.Fatalf("weight %d is %v, want %v", i, v, want)
		}
	}
}
