package convert

import (
	"cmp"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
)

// wideActivation is what a file may have in place of the activations that its weights go with: 16 bits, which cost
// next to nothing of the model and more time (docs/QUALITY.md).
var wideActivation = packed.Activation{Kind: packed.ActivationToken16}

// activations lists those that files may have: all that activationOf chooses from, and 16 bits, unless the recipe names
// activations.
func (a *allocating) activations() []packed.Activation {
	if a.plans[0].Recipe.Activation != "" {
		return []packed.Activation{a.plans[0].contents.Manifest.Activation}
	}
	return []packed.Activation{{Kind: packed.ActivationToken}, {Kind: packed.ActivationGroup, Size: 32},
		{Kind: packed.ActivationGroup, Size: 64}, wideActivation}
}

// rounding chooses the activations of a file: 16 bits where those that the weights go with would cost more than the
// weights do, unless the recipe names activations.
func (a *allocating) rounding(choice []int, weights float64) Rounding {
	of := func(want packed.Activation) Rounding {
		i := slices.IndexFunc(a.rounds, func(r Rounding) bool { return r.Activation == want })
		r := a.rounds[i]
		if a.headCoded(choice) {
			r.Divergence += a.heads[i]
		}
		return r
	}
	usual := of(a.usual(choice))
	if a.plans[0].Recipe.Activation == "" && usual.Divergence > weights {
		return of(wideActivation)
	}
	return usual
}

// usual is what the weights of a choice of forms go with, or what the recipe names.
func (a *allocating) usual(choice []int) packed.Activation {
	var entries []packed.Entry
	for _, e := range a.plans[0].contents.Manifest.Packed {
		if _, ok := a.rows[e.Name]; !ok && !a.isTable(e.Name) {
			entries = append(entries, e)
		}
	}
	for i, t := range a.tables {
		if s := t.forms[choice[len(a.groups)+i]]; s.entry != nil {
			entries = append(entries, *s.entry)
		}
	}
	for i, g := range a.groups {
		for _, name := range g.Names {
			entries = append(entries, *a.rows[name][choice[i]].entry)
		}
	}
	return activationOf(&a.plans[0].Recipe, entries, a.plans[0].ofVocabulary)
}

// headCoded reports whether the head of a choice has codes, and so multiplies rounded vectors.
func (a *allocating) headCoded(choice []int) bool {
	if i := a.headTable(); i >= 0 {
		return a.tables[i].forms[choice[len(a.groups)+i]].entry != nil
	}
	p := a.plans[0]
	s := cmp.Or(p.step(packed.HeadName), p.step(p.model.Head))
	return s != nil && s.entry != nil
}

// headTable is the number of the table that is the head, -1 for none.
func (a *allocating) headTable() int {
	return slices.IndexFunc(a.tables, func(t table) bool { return t.name == a.plans[0].model.Head })
}

// itemsByHead are the items for each of the activations, with what these cost in a head of codes; once where the head
// has codes in all of its forms, or in none.
func (a *allocating) itemsByHead() [][][]option {
	i := a.headTable()
	if i < 0 || a.tables[i].forms[len(a.tables[i].forms)-1].entry != nil {
		return [][][]option{a.items}
	}
	var list [][][]option
	for _, cost := range a.heads {
		items := slices.Clone(a.items)
		head := slices.Clone(items[len(a.groups)+i])
		for k, s := range a.tables[i].forms {
			if s.entry != nil {
				head[k].cost += cost
			}
		}
		items[len(a.groups)+i] = head
		list = append(list, items)
	}
	return list
}
