package convert

import (
	"cmp"
	"fmt"
	"path"

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
// name a quantizer, only those without a pattern decide for these, and no others do beside one of them.
func (d *decider) spares(r packed.Rule, name string) bool {
	if d.model == nil || r.Match == name || !d.ofVocabulary(name) {
		return false
	}
	quantizes := r.Quant != "" && r.Quant != QuantAuto && r.Quant != QuantNone
	return quantizes || d.quantizesByName(name)
}

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
		if name := d.decides[i]; name != "" && r.Quant == "" {
			why = fmt.Sprintf("floats of %q stay floats, unless the rule names a quantizer (quant)", name)
		} else if name != "" {
			why = fmt.Sprintf("%q is none of the matrices that are quantized", name)
		}
		return fmt.Errorf("%w: rule %d of the recipe (match: %q) has no effect: %s", pack.ErrUnsupported, i+1, r.Match,
			why)
	}
	return nil
}
