package quantized

import (
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
	return &Scheme{Method: "compressed-tensors", layer: f.layer}
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
	floats := t.format == "mxfp4-pack-quantized" && kind == "float" && t.bits == 4
	switch {
	case !slices.Contains([]string{"pack-quantized", "int-quantized", "mxfp4-pack-quantized"}, t.format):
		k.fail(pack.ErrUnsupported,
			"format %q of compressed-tensors; supported are pack-quantized and int-quantized with integers, and "+
				"mxfp4-pack-quantized", t.format)
	case kind != "int" && !floats:
		w.fail(pack.ErrUnsupported, "weights of type %q with %d bits in format %s", kind, t.bits, t.format)
	case t.bits < 2 || t.bits > 8:
		w.fail(pack.ErrUnsupported, "num_bits is %d; supported are 2 to 8", t.bits)
	case !slices.Contains([]string{"", "tensor", "channel", "group"}, strategy):
		w.fail(pack.ErrUnsupported, "strategy %q; supported are tensor, channel and group", strategy)
	}
	k.take(w)
	if strategy != "group" {
		t.group = 0
	}
	t.note = k.inputs()
	var list []target
	for _, name := range k.texts("targets") {
		t.matches = k.target(name)
		list = append(list, t)
	}
	return list
}

// inputs returns the note on input_activations.
func (k *keys) inputs() (note string) {
	in := k.sub("input_activations")
	if in.v == nil {
		return ""
	}
	in.follow("input_activations")
	if !in.flag("dynamic", false) {
		note = "static activation scales are not used: activations are quantized per token"
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

const maxPattern = 1024 // bytes

// pattern compiles a regular expression that must match at the start of a name.
func (k *keys) pattern(text string) matcher {
	if onlyDots(text) && len(text) <= maxPattern {
		return matcher{rank: pattern, name: text}
	}
	re, err := regexp.Compile("^(?:" + text + ")")
	if err != nil || len(text) > maxPattern {
		k.fail(pack.ErrUnsupported, "cannot parse pattern %.100q", text)
		re = regexp.MustCompile("$^")
	}
	return matcher{pattern, "", re}
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
