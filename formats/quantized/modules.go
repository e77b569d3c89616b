package quantized

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// declared is what a configuration declares of a module's codes.
type declared struct {
	bits, group int
	symmetric   bool
	order       order
	floats      bool // declared as not quantized
}

// order is the order of columns within groups (desc_act, actorder).
type order int

const (
	unsaid  order = iota // the tensors decide
	ordered              // a tensor holds the order
	plain                // no tensor, or one without effect
)

// modules holds the declarations of all modules.
type modules struct {
	declared // default
	list     []override
}

type override struct {
	matcher
	declared
}

// of returns the declaration of a module: the first matching name or pattern wins.
func (m *modules) of(module string) declared {
	for _, o := range m.list {
		if o.match(module) {
			return o.declared
		}
	}
	return m.declared
}

// modules reads the defaults and the overrides: dynamic of GPTQModel, extra_config and regex_config of AutoRound.
// absent holds the defaults of readers.
func (k *keys) modules(absent declared) *modules {
	k.agree("quant_method", "method")
	k.agree("bits", "w_bit")
	k.agree("group_size", "q_group_size")
	m := &modules{declared: absent}
	m.bits = k.integer(k.first("bits", "w_bit"), absent.bits)
	m.group = k.integer(k.first("group_size", "q_group_size"), absent.group)
	m.symmetric, m.order = k.symmetric(absent.symmetric), k.descAct(absent.order)
	k.integerData()
	k.each("dynamic", "module", func(key string, s *keys) {
		name, floats := strings.CutPrefix(key, "-:")
		o := override{k.pattern(strings.TrimPrefix(name, "+:")), s.override(m.declared)}
		o.floats = floats
		m.list = append(m.list, o)
	})
	for _, name := range []string{"extra_config", "regex_config"} {
		k.each(name, "module", func(key string, s *keys) {
			o := override{k.pattern(key), s.override(m.declared)}
			o.floats = o.bits >= 16
			m.list = append(m.list, o)
		})
	}
	return m
}

func (k *keys) override(d declared) declared {
	d.bits, d.group = k.integer("bits", d.bits), k.integer("group_size", d.group)
	d.symmetric, d.order = k.flag("sym", d.symmetric), k.descAct(d.order)
	k.integerData()
	return d
}

// symmetric reads sym or its opposite, zero_point.
func (k *keys) symmetric(absent bool) bool {
	sym := k.flag("sym", absent)
	if k.v.Get("zero_point") == nil {
		return sym
	}
	points := k.flag("zero_point", false)
	if k.v.Get("sym") != nil && sym == points {
		k.fail(pack.ErrCorrupt,
			"sym and zero_point are both %t, but they are opposites; correct the wrong one", sym)
	}
	return !points
}

func (k *keys) descAct(absent order) order {
	switch {
	case k.v.Get("desc_act") == nil:
		return absent
	case k.flag("desc_act", false):
		return ordered
	}
	return plain
}

// integerData rejects AutoRound data types other than integers, except for modules in floats.
func (k *keys) integerData() {
	if t := k.text("data_type", "int"); t != "int" && k.integer("bits", 4) < 16 {
		k.fail(pack.ErrUnsupported, "data_type %q; supported is int", t)
	}
	if bits := k.integer("act_bits", 16); bits >= 0 && bits < 16 {
		k.detail("act_bits is not followed: %s", activations)
	}
}

// format reads the layout of codes under the first of its synonyms.
func (k *keys) format(absent string, names ...string) string {
	k.agree(names...)
	return strings.ToLower(k.text(k.first(names...), absent))
}

// gptq: the format is under one of two keys. Old files have neither and use the first version.
func (k *keys) gptq() *Scheme {
	k.follow("modules")
	form := minusOne
	switch format := k.format("gptq", "checkpoint_format", "format"); format {
	case "gptq":
	case "gptq_v2":
		form = asIs
	default:
		k.fail(pack.ErrUnsupported, "format %q of GPTQ; supported are gptq and gptq_v2", format)
	}
	if t := k.text("pack_dtype", "int32"); t != "int32" {
		k.fail(pack.ErrUnsupported, "pack_dtype %q; supported is int32", t)
	}
	autoRound := strings.Contains(k.text("provider", ""), "auto-round")
	if autoRound {
		form = clamped
	}
	f := gptq{k.modules(declared{group: -1, symmetric: true}), form, autoRound}
	return &Scheme{Method: "GPTQ", layer: f.layer}
}

func (k *keys) awq() *Scheme {
	k.follow("modules")
	v := k.format("gemm", "version", "format", "checkpoint_format")
	if v != "gemm" && v != "gemv" {
		k.fail(pack.ErrUnsupported,
			"%s %q of AWQ; supported are gemm and gemv", k.first("version", "format", "checkpoint_format"), v)
	}
	if b := k.text("backend", ""); strings.EqualFold(b, "llm-awq") {
		k.fail(pack.ErrUnsupported, "backend %q of AWQ stores codes in another order; supported is gemm", b)
	}
	f := awq{k.modules(declared{bits: 4, group: 128}), strings.Contains(k.text("provider", ""), "auto-round")}
	if f.bits != 4 {
		k.fail(pack.ErrUnsupported, "AWQ with %d bits; supported is 4", f.bits)
	}
	if f.declared.order == ordered {
		k.fail(pack.ErrUnsupported, "desc_act is true, but AWQ has no column order")
	}
	if v == "gemv" {
		return &Scheme{Method: "AWQ", layer: f.gemv}
	}
	return &Scheme{Method: "AWQ", layer: f.layer}
}

// autoRound has three layouts. backend names the layout in old files only; in later ones it is a runtime.
func (k *keys) autoRound() *Scheme {
	k.follow("modules")
	form := k.text(k.first("packing_format", "backend"), "auto_round:auto_gptq")
	layout := strings.TrimPrefix(form, "auto_round:")
	switch m := k.modules(declared{group: 128, symmetric: true}); {
	case layout == "auto_round":
		return &Scheme{Method: "AutoRound", layer: gptq{m, asIs, true}.layer}
	case isLayout(layout, "auto_gptq", "gptq", "auto"):
		return &Scheme{Method: "AutoRound", layer: gptq{m, clamped, true}.layer}
	case isLayout(layout, "auto_awq", "awq"):
		return &Scheme{Method: "AutoRound", layer: awq{m, true}.layer}
	}
	k.fail(pack.ErrUnsupported,
		"packing_format %q of AutoRound; supported are auto_round, auto_round:auto_gptq and auto_round:auto_awq", form)
	return nil
}

// isLayout reports whether a layout is one of the names, optionally followed by a colon and a kernel.
func isLayout(layout string, names ...string) bool {
	layout, _, _ = strings.Cut(layout, ":")
	return slices.Contains(names, layout)
}
