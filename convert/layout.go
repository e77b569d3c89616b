package convert

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// layout opens the layout for the codes of a matrix: the one that a rule names, or else the recipe's, or where that
// does not hold them and other is set, one that does. Rows of an embedding are decoded one at a time, which requires a
// layout in row panels.
func (d *decider) layout(m matrix, c choice, a pack.Alphabet, other bool) (pack.Layout, error) {
	if c.ruled != "" {
		return d.ruledLayout(m, c, a)
	}
	embeds := d.embeds(m)
	l, err := openLayout(c.layout, c.params, a, other || embeds)
	if _, paneled := l.(pack.Paneled); embeds && !paneled {
		return pack.Open(pack.Spec{Name: DefaultLayout, Alphabet: a.Name})
	}
	return l, err
}

// ruledLayout opens the layout that a rule names, and refuses the rule if the layout cannot have the codes.
func (d *decider) ruledLayout(m matrix, c choice, a pack.Alphabet) (pack.Layout, error) {
	l, err := pack.Open(pack.Spec{Name: c.layout, Alphabet: a.Name, Params: c.params})
	if _, paneled := l.(pack.Paneled); err == nil && d.embeds(m) && !paneled {
		err = fmt.Errorf("%w: layout %q has no row panels, of which an embedding is read", pack.ErrUnsupported,
			c.layout)
	}
	if err == nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w; have %s name another layout, or a rule before it match the tensor", err,
		d.ruleOf(c.ruled))
}

// OtherLayouts lists the linear layers that have another layout than the recipe's, which does not hold their codes,
// though no rule names one.
func (p *Plan) OtherLayouts() (list []Row) {
	for _, s := range p.steps {
		if s.entry == nil || s.row.Layout == p.Recipe.Layout || p.ofVocabulary(s.entry.Name) {
			continue
		}
		if choose(&p.Recipe, s.entry.Name).ruled == "" {
			list = append(list, s.row)
		}
	}
	return list
}

// openLayout opens the chosen layout for codes of an alphabet. If the head is the only tensor with 8-bit or 4-bit
// codes, the chosen layout probably cannot hold them; the head then gets a layout that can, as all matrices do whose
// codes only one layout holds.
func openLayout(name string, params map[string]int, a pack.Alphabet, head bool) (pack.Layout, error) {
	spec := pack.Spec{Name: name, Alphabet: a.Name, Params: params}
	l, err := pack.Open(spec)
	other := ownLayouts[a.Name]
	if other == "" && head {
		other = headLayouts[a.Name]
	}
	if err != nil && other != "" {
		return pack.Open(pack.Spec{Name: other, Alphabet: a.Name})
	}
	return l, err
}

// ownLayouts maps alphabets to the only layout that holds their codes.
var ownLayouts = map[string]string{pack.Int3.Name: "vnni4p", pack.Int5.Name: "vnni4p", pack.Int6.Name: "vnni4p"}

// headLayouts maps alphabets to layouts that hold their codes and have dedicated kernels.
var headLayouts = map[string]string{pack.Int8.Name: "vnni4", pack.Int4.Name: "vnni4i", pack.E2M1.Name: "vnni4i",
	pack.IQ4NL.Name: "vnni4i", pack.Int4Odd.Name: "vnni4i", pack.IQ2.Name: "vnni4i", pack.IQ3XXS.Name: "vnni4i"}
