package convert

import (
	"context"

	"github.com/lowpack/lowpack/formats/packed"
)

// kept is the form of weights that stay the codes that the checkpoint has of them, which cost nothing. It stands behind
// budgetForms, and is no choice where a checkpoint has floats.
const kept = len(budgetForms)

// planKept plans a conversion that keeps the codes of all weights which the checkpoint has codes of, with the last
// form for the others. Without any such codes there is no plan.
func (a *allocating) planKept(ctx context.Context) error {
	p, err := a.planBy(ctx, nil)
	if err != nil {
		return err
	}
	a.others = append(a.others, p)
	a.planned(kept, p)
	var rest []packed.Rule
	for _, name := range a.names {
		if a.rows[name][kept] == nil {
			rest = append(rest, a.rule(kept-1, name))
		}
	}
	switch len(rest) {
	case len(a.names):
		return nil
	case 0:
		a.asIs = p
		return nil
	}
	if a.asIs, err = a.planBy(ctx, rest); err == nil {
		a.others = append(a.others, a.asIs)
	}
	return err
}

// keeping is the option of a group that stays as the checkpoint has it, if that has codes of all of its weights.
func (a *allocating) keeping(names []string) (o option, ok bool) {
	for _, name := range names {
		s := a.rows[name][kept]
		if s == nil {
			return o, false
		}
		o.bytes += s.row.BytesOut
	}
	return o, true
}

// keepNoLarger keeps the codes of groups for which a form of as many bytes or more was chosen: no form costs less.
func (a *allocating) keepNoLarger(choice []int) {
	for i := range a.groups {
		if o := a.items[i]; len(o) > kept && o[kept].bytes <= o[choice[i]].bytes {
			choice[i] = kept
		}
	}
}
