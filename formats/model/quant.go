package model

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// quant reads quantization_config. The meaning of a stored weight_scale follows from the linear class alone: `bitlinear`
// (also when absent) stores 1/mean|W| and divides, `autobitlinear` stores mean|W| and multiplies. Magnitude decides nothing.
func quant(k *keys) Quant {
	q := Quant{Float: []string{"lm_head"}}
	if !k.has("quantization_config") {
		return q
	}
	s := k.sub("quantization_config")
	defer func() { k.take(s) }()
	if method := s.text("quant_method", ""); method != "bitnet" {
		s.fail(pack.ErrUnsupported, "quant_method %q; supported is bitnet", method)
		return q
	}
	s.refuse("use_rms_norm", false, "a norm inside the linear layers is not supported")
	if kept := s.texts("modules_to_not_convert"); kept != nil {
		q.Float = kept
	}
	class, mode := s.text("linear_class", "bitlinear"), s.text("quantization_mode", "offline")
	switch {
	case class == "bitlinear":
		q.Declared, q.ScaleDivides = Packed, true
	case class == "autobitlinear" && mode == "offline":
		q.Declared = Packed
	case class == "autobitlinear" && mode == "online":
		q.Declared = AbsMean
	default:
		s.fail(pack.ErrUnsupported, "linear_class %q with quantization_mode %q; supported are bitlinear, and autobitlinear online or offline", class, mode)
	}
	return q
}

// Keeps says whether a linear stays in floats, by the last or the whole name of its module.
func (q *Quant) Keeps(tensor string) bool {
	module := strings.TrimSuffix(tensor, ".weight")
	return slices.ContainsFunc(q.Float, func(name string) bool {
		return module == name || strings.HasSuffix(module, "."+name)
	})
}
