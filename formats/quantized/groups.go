package quantized

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// compressed reads the configuration of compressed-tensors.
func (k *keys) compressed() *Scheme {
	k.follow("compressed-tensors")
	k.dense()
	format := k.text("format", "")
	f := &compressed{}
	if k.v.Get("ignore") != nil {
		for _, name := range k.texts("ignore") {
			f.ignored = append(f.ignored, k.target(name))
		}
	}
	groups := k.v.Get("config_groups")
	if groups == nil || groups.Kind != jsonread.Object || len(groups.Members) == 0 {
		k.fail(pack.ErrCorrupt, "config_groups is missing, or not an object")
		return nil
	}
	k.each("config_groups", "config_groups", func(_ string, s *keys) {
		f.targets = append(f.targets, s.compressedGroup(format)...)
	})
	return &Scheme{Method: "compressed-tensors", layer: f.layer, values: f.values}
}

// dense rejects sparse storage.
func (k *keys) dense() {
	s := k.sub("sparsity_config")
	if s.v == nil {
		return
	}
	s.follow("sparsity_config")
	if format := s.text("format", "dense"); format != "dense" {
		s.fail(pack.ErrUnsupported, "format %q stores only some weights; supported is dense", format)
	}
	k.take(s)
}

// compressedForm is what a format of compressed-tensors stores.
type compressedForm struct {
	kind        string // type of the weights
	least, most int    // bits
	group       int    // columns per scale; 0 = any number
	strategies  []string
}

// compressedForms are the formats by name. The strategies are those that the packer's scales can have in each.
var compressedForms = map[string]compressedForm{
	"pack-quantized":       {"int", 2, 8, 0, []string{"", "tensor", "channel", "group"}},
	"int-quantized":        {"int", 2, 8, 0, []string{"", "tensor", "channel", "group"}},
	"mxfp4-pack-quantized": {"float", 4, 4, mxBlock, []string{"", "group"}},
	"nvfp4-pack-quantized": {"float", 4, 4, nvBlock, []string{"", "tensor_group"}},
	"float-quantized":      {"float", 8, 8, 0, []string{"tensor", "channel", "group", "block"}},
	"mxfp8-quantized":      {"float", 8, 8, mxBlock, []string{"group"}},
	sixFormat:              {"float", 6, 6, mxBlock, []string{"group"}},
}

func (k *keys) compressedGroup(format string) []target {
	w := k.sub("weights")
	if w.v != nil {
		w.follow("weights")
	}
	t := target{format: k.text("format", format), declared: declared{
		bits: w.integer("num_bits", 8), group: w.integer("group_size", 0),
		symmetric: w.flag("symmetric", true), order: w.actorder(),
	}}
	kind, strategy := w.text("type", "int"), w.text("strategy", "")
	if t.format == "naive-quantized" { // either of the two, by the type of the weights
		t.format = kind + "-quantized"
	}
	form, known := compressedForms[t.format]
	switch {
	case !known:
		k.fail(pack.ErrUnsupported, "format %q of compressed-tensors; supported are %s", t.format,
			strings.Join(slices.Sorted(maps.Keys(compressedForms)), ", "))
	case kind != form.kind || form.kind == "float" && t.bits != form.most:
		w.fail(pack.ErrUnsupported, "weights of type %q with %d bits in format %s", kind, t.bits, t.format)
	case t.bits < form.least || t.bits > form.most:
		w.fail(pack.ErrUnsupported, "num_bits is %d; supported are %d to %d", t.bits, form.least, form.most)
	case !slices.Contains(form.strategies, strategy):
		w.fail(pack.ErrUnsupported, "strategy %q in format %s; supported are %s", strategy, t.format,
			strings.TrimPrefix(strings.Join(form.strategies, ", "), ", "))
	case form.group != 0 && t.group != 0 && t.group != form.group:
		w.fail(pack.ErrCorrupt, "group_size is %d, but format %s has groups of %d", t.group, t.format, form.group)
	case form.kind == "float" && !t.symmetric:
		w.fail(pack.ErrUnsupported, "symmetric is false, but floats have no zero points")
	case form.kind == "float" && t.order == ordered:
		w.fail(pack.ErrUnsupported, "actorder is group, which is not supported in format %s", t.format)
	}
	t.block = w.block(strategy, t.group)
	k.take(w)
	if strategy != "group" {
		t.group = 0
	}
	t.note = k.inputs(form.most >= 6 && kind == "float")
	var list []target
	for _, name := range k.texts("targets") {
		t.matches = k.target(name)
		list = append(list, t)
	}
	return list
}

// block returns the rows and columns that share a scale; 0 = all.
func (k *keys) block(strategy string, group int) (b [2]int) {
	given := k.v.Get("block_structure") != nil
	switch {
	case strategy == "block":
		return k.pair("block_structure")
	case given:
		k.fail(pack.ErrCorrupt, "block_structure is %s, but strategy is %q; correct the wrong one",
			show(k.v.Get("block_structure")), strategy)
	case strategy == "channel":
		b = [2]int{1, 0}
	case strategy == "group":
		b = [2]int{1, max(group, 0)}
	}
	return b
}

// pair reads a list of two positive integers.
func (k *keys) pair(name string) (b [2]int) {
	v := k.v.Get(name)
	if v == nil || v.Kind != jsonread.Array || len(v.Items) != 2 {
		k.fail(pack.ErrCorrupt, "%s is missing, or not a list of two integers", name)
		return [2]int{1, 1}
	}
	for i := range b {
		n, ok := v.Items[i].Int()
		if !ok || n < 1 || n > pack.MaxDim {
			k.fail(pack.ErrCorrupt, "%s[%d] is not an integer from 1 to %d", name, i, pack.MaxDim)
			n = 1
		}
		b[i] = int(n)
	}
	return b
}

// staticScales is the note on layers with scales of activations.
const staticScales = "static activation scales are not used: activations are quantized per token"

// inputs returns the note on input_activations. Those of floats are floats.
func (k *keys) inputs(floats bool) (note string) {
	in := k.sub("input_activations")
	if in.v == nil {
		return ""
	}
	in.follow("input_activations")
	switch local, _ := in.v.Get("dynamic").Str(); {
	case floats:
		in.detail("it is not followed: %s", floatActivations)
	case local == "local" || !in.flag("dynamic", false):
		note = staticScales
	}
	k.take(in)
	return note
}

// actorder: only "group", which some packers write as true, stores an order in the file.
func (k *keys) actorder() order {
	v := k.v.Get("actorder")
	if v == nil || v.Kind == jsonread.Bool {
		if v != nil && v.Bool {
			return ordered
		}
		return plain
	}
	switch how := strings.ToLower(k.text("actorder", "")); how {
	case "group", "dynamic":
		return ordered
	case "weight", "static":
	default:
		k.fail(pack.ErrUnsupported, "actorder %q; supported are group, dynamic, weight and static", how)
	}
	return plain
}

// Ranks of targets.
const (
	exactName = iota
	pattern
	className
)

// matcher matches module names.
type matcher struct {
	rank    int
	name    string
	pattern *regexp.Regexp
}

func (m matcher) match(module string) bool {
	switch {
	case m.pattern != nil:
		return m.pattern.MatchString(module)
	case m.rank == pattern:
		return beginsWith(module, m.name)
	case m.rank == className:
		return true
	}
	return m.name == module
}

// pattern compiles a regular expression that must match at the start of a name.
func (k *keys) pattern(text string) matcher {
	if onlyDots(text) && len(text) <= maxPattern {
		return matcher{rank: pattern, name: text}
	}
	return matcher{pattern, "", k.compile("^(?:", text, ")")}
}

// onlyDots reports whether a pattern is a name in which only dots are special. Configurations of mixtures have
// thousands of them, one per expert, which is slow with regular expressions.
func onlyDots(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r >= utf8.RuneSelf || !strings.ContainsRune("._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// beginsWith reports whether a name starts with a match of such a pattern.
func beginsWith(name, dotted string) bool {
	for _, want := range dotted {
		c, n := utf8.DecodeRuneInString(name)
		if n == 0 || c != want && (want != '.' || c == '\n') {
			return false
		}
		name = name[n:]
	}
	return true
}

// target parses a target: a class of modules, a pattern after "re:", or a name.
func (k *keys) target(text string) matcher {
	switch re, is := strings.CutPrefix(text, "re:"); {
	case is:
		return k.pattern(re)
	case text == "Linear" || text == "Embedding":
		return matcher{rank: className, name: text}
	}
	return matcher{rank: exactName, name: text}
}
