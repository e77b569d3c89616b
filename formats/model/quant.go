package model

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// quant reads quantization_config. The meaning of a stored weight_scale depends on the linear class alone: `bitlinear`
// (the default) stores 1/mean|W| and divides, `autobitlinear` stores mean|W| and multiplies. Its magnitude is not
// considered.
func quant(k *keys) Quant {
	q := Quant{Float: []string{"lm_head"}} // null: transformers does not quantize the output head
	bitnet := k.flag("is_bitnet_config", false)
	if !k.has("quantization_config") {
		if k.has("quantization") {
			q.Declared, q.Float = Imported, nil
		} else if q.Masters = masters(k, bitnet); q.Masters != "" {
			q.Declared = Masters
		}
		return q
	}
	s := k.sub("quantization_config")
	defer func() { k.take(s) }()
	if method := s.text("quant_method", ""); method != "bitnet" {
		q.Declared, q.Float = Imported, nil
		return q
	}
	s.refuse("use_rms_norm", false, "a norm inside the linear layers is not supported")
	if s.has("modules_to_not_convert") {
		if err := q.keep(s.texts("modules_to_not_convert")); err != nil && s.err == nil {
			s.err = fmt.Errorf("%s: %w", s.file, err)
		}
	}
	if s.err == nil && !q.Keeps(headName) {
		s.fail(pack.ErrUnsupported,
			"modules_to_not_convert does not name lm_head, so that its weights would be ternary too; an output head "+
				"is kept in floats, or quantized by --head")
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
		s.fail(pack.ErrUnsupported,
			"linear_class %q with quantization_mode %q; supported are bitlinear, and autobitlinear online or offline",
			class, mode)
	}
	return q
}

// masters returns what says that floats are trained to be quantized, in files of programs of training: w_bits of
// ParetoQ, Sherry and Tequila, whose classes quantize weights of fewer than 16 bits before each product, and
// is_bitnet_config of onebitllms without its quantization_config; "" = nothing does.
func masters(k *keys, bitnet bool) string {
	bits, method := k.natural("w_bits", 64, 64), k.text("quant_method", "")
	switch {
	case bits < 16 && method != "":
		return fmt.Sprintf("w_bits is %d and quant_method %.40q", bits, method)
	case bits < 16:
		return fmt.Sprintf("w_bits is %d", bits)
	case method != "" && !strings.EqualFold(method, "none"):
		return fmt.Sprintf("quant_method is %.40q", method)
	case bitnet:
		return "is_bitnet_config is true, without a quantization_config"
	}
	return ""
}

// keep sets the linear layers that stay in floats, by names or patterns.
func (q *Quant) keep(patterns []string) error {
	if len(patterns) > maxPatterns {
		return fmt.Errorf("%w: modules_to_not_convert has %d entries, more than %d", pack.ErrLimit, len(patterns),
			maxPatterns)
	}
	q.Float, q.patterns = patterns, nil
	for _, p := range patterns {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil || len(p) > maxPatternBytes {
			return fmt.Errorf("%w: modules_to_not_convert: %.100q is not a name or pattern that can be read",
				pack.ErrUnsupported, p)
		}
		q.patterns = append(q.patterns, re)
	}
	return nil
}

// checkBiases rejects packed weights with a multiplying scale and a bias: transformers multiplies the bias too,
// (x·codes + bias)·scale, unlike an nn.Linear with the same weights, and no known model is trained this way.
func (d *Description) checkBiases() error {
	if d.Quant.Declared != Packed || d.Quant.ScaleDivides {
		return nil
	}
	for i := range d.Blocks {
		for _, l := range d.Blocks[i].Linears() {
			if l.Bias != "" && !d.Quant.Keeps(l.Weight) {
				return fmt.Errorf("config.json: quantization_config: %w: linear_class autobitlinear offline, but %s "+
					"exists, which transformers would multiply by weight_scale; with linear_class bitlinear and "+
					"1/weight_scale it is added as it is", pack.ErrUnsupported, l.Bias)
			}
		}
	}
	return nil
}

// Keeps reports whether a linear layer stays in floats: a name or pattern matches a suffix of its module's name, or a
// prefix that ends at a component boundary, as in transformers.
func (q *Quant) Keeps(tensor string) bool {
	module := strings.TrimSuffix(tensor, ".weight")
	return slices.ContainsFunc(q.Float, func(name string) bool { return strings.HasSuffix(module, name) }) ||
		slices.ContainsFunc(q.patterns, func(whole *regexp.Regexp) bool { return begins(module, whole) })
}

// begins reports whether a pattern matches a prefix of a module's name that ends at or just after a component boundary.
func begins(module string, whole *regexp.Regexp) bool {
	for i := range len(module) + 1 {
		boundary := i == len(module) || module[i] == '.' || i > 0 && module[i-1] == '.'
		if boundary && whole.MatchString(module[:i]) {
			return true
		}
	}
	return false
}
