package convert

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// following says what became of the rules of a recipe, by number.
type following struct {
	decides  map[int]string // the first tensor that a rule decides for
	followed map[int]bool   // for one of them at least
}

// follow notes what became of a tensor: codes, or what it was.
func (d *decider) follow(name string, codes bool) {
	for i, r := range d.Recipe.Rules {
		if matched, _ := path.Match(r.Match, name); !matched || d.spares(r, name) {
			continue
		}
		d.decides[i] = cmp.Or(d.decides[i], name)
		if r.Quant == QuantAuto || codes != (r.Keep || r.Quant == QuantNone) {
			d.followed[i] = true
		}
		return
	}
}

// spares reports whether a rule leaves out a tensor that matches, as that is the embedding or the head: of rules that
// name a quantizer, only those without a pattern decide for these, and no others do beside one of them, or for a head
// that the recipe asks to be quantized.
func (d *decider) spares(r packed.Rule, name string) bool {
	if d.model == nil || r.Match == name || !d.ofVocabulary(name) {
		return false
	}
	quantizes := r.Quant != "" && r.Quant != QuantAuto && r.Quant != QuantNone
	return quantizes || d.quantizesByName(name) || d.headQuant(name) != ""
}

// headConflict refuses a recipe whose rule or include leaves the floats of a head that it asks to be quantized.
func (d *decider) headConflict(m matrix, c choice) error {
	switch {
	case !m.head || d.headQuant(m.name) == "":
		return nil
	case !c.keep && c.quant == QuantAuto:
		return fmt.Errorf("%w: %s takes what the values of the output head are already (quant: auto), and --head %s "+
			"quantizes them; leave out one of them", pack.ErrUnsupported, d.ruleOf(m.name), d.Recipe.Head)
	case c.keep || !c.explicit:
		return fmt.Errorf("%w: %s leaves the floats that --head %s quantizes; leave out one of them",
			pack.ErrUnsupported, d.ruleOf(m.name), d.Recipe.Head)
	case !included(&d.Recipe, m.name):
		return fmt.Errorf("%w: --head %s quantizes %q, which --include leaves out; include it too, or leave out --head",
			pack.ErrUnsupported, d.Recipe.Head, m.name)
	}
	return nil
}

// codesOfHead refuses a form of the head beside codes that cannot have it: codes that are taken over keep theirs, and
// screen stands beside floats.
func (d *decider) codesOfHead() error {
	for _, s := range d.steps {
		if s.row.Tensor != d.model.Head || s.entry == nil || d.Recipe.Head == "" {
			continue
		}
		if s.entry.Quantizer == importCodes || d.Recipe.Head == packed.HeadScreen {
			return fmt.Errorf("%w: --head %s is made of floats, and %q has codes (%s); leave out --head, or the rule "+
				"of the recipe that names the tensor", pack.ErrUnsupported, d.Recipe.Head, s.row.Tensor,
				s.entry.Quantizer)
		}
	}
	return nil
}

// ruleOf names the first rule of the recipe that has a pattern.
func (d *decider) ruleOf(pattern string) string {
	at := slices.IndexFunc(d.Recipe.Rules, func(r packed.Rule) bool { return r.Match == pattern })
	return ruleNamed(at, pattern)
}

func ruleNamed(at int, pattern string) string {
	return fmt.Sprintf("rule %d of the recipe (match: %q)", at+1, pattern)
}

// noEffect reports a rule without any effect.
type noEffect struct{ error }

func (e noEffect) Unwrap() error { return e.error }

// unfollowed refuses rules without any effect: whoever wrote them wants another file.
func (d *decider) unfollowed() error {
	for _, s := range d.steps {
		d.follow(s.row.Tensor, s.entry != nil)
	}
	for i, r := range d.Recipe.Rules {
		if d.followed[i] {
			continue
		}
		why := "no tensor matches that an earlier rule does not decide for; rules quantize the embedding and the " +
			"output head if they name them without a pattern"
		if name := d.quantizedHead(r.Match); name != "" {
			why = fmt.Sprintf("--head %s quantizes %q, for which a rule decides only if it names it without a "+
				"pattern; leave out --head or the rule", d.Recipe.Head, name)
		} else if name := d.decides[i]; name != "" && r.Quant == "" {
			why = fmt.Sprintf("floats of %q stay floats, unless the rule names a quantizer (quant)", name)
		} else if name != "" {
			why = fmt.Sprintf("%q is none of the matrices that are quantized", name)
		}
		return noEffect{fmt.Errorf("%w: %s has no effect: %s", pack.ErrUnsupported, ruleNamed(i, r.Match), why)}
	}
	return nil
}

// quantizedHead returns the tensor that matches a pattern, and that the form of the head has quantized; "" = none.
func (d *decider) quantizedHead(pattern string) string {
	for _, s := range d.steps {
		name := s.row.Tensor
		matched, _ := path.Match(pattern, name)
		if matched && pattern != name && d.model != nil && d.headQuant(name) != "" {
			return name
		}
	}
	return ""
}
