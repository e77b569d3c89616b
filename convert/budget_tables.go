package convert

import (
	"context"
	"slices"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/formats/packed"
)

// tableRules are the forms of the output head in codes (Recipe.Head), and those that Allocate chooses from for the
// embedding and the head, beside what they have without a rule, each with fewer bits than the next one.
var tableRules = []packed.Rule{{Quant: "int4", Scale: "group:32"}, {Quant: "int6", Scale: "group:64"},
	{Quant: "int8", Scale: "row"}}

// tableScale is the scale of the output head in codes of a quantizer, where nothing names another; "" = the
// quantizer's own.
func tableScale(quant string) string {
	for _, r := range tableRules {
		if r.Quant == quant {
			return r.Scale
		}
	}
	return ""
}

// table is the embedding or the output head, or both, if they are tied.
type table struct {
	name  string
	forms []*step // of tableRules that take fewer bytes than the last one, which is what it has without a rule
	rules []packed.Rule
}

// TableForm is the form of the embedding or of the head.
type TableForm struct {
	Name string
	Rule packed.Rule // for Recipe.Rules; without a quantizer: none, it is as the checkpoint has it
}

// planTables plans conversions with the forms of the embedding and the head that there is a choice of.
func (a *allocating) planTables(ctx context.Context) error {
	a.least = a.plans[0].Bytes
	if a.apart {
		a.stay = a.plans[0].codedTables()
		return nil
	}
	m := a.plans[0].model
	for _, name := range []string{m.Embed, m.Head} {
		if a.plans[0].step(name) != nil && included(&a.o.Recipe, name) && !a.isTable(name) {
			a.tables = append(a.tables, table{name: name})
		}
	}
	for _, r := range tableRules {
		var rules []packed.Rule
		for _, t := range a.tables {
			rules = append(rules, a.named(r, t.name))
		}
		p, err := a.planOf(ctx, 0, rules)
		if err != nil {
			return err
		}
		a.others = append(a.others, p)
		for i := range a.tables {
			t := &a.tables[i]
			if s := p.step(t.name); s.row.BytesOut < a.plans[0].step(t.name).row.BytesOut {
				t.forms, t.rules = append(t.forms, s), append(t.rules, a.named(r, t.name))
			}
		}
	}
	var least []packed.Rule
	for i := range a.tables {
		t := &a.tables[i]
		t.forms, t.rules = append(t.forms, a.plans[0].step(t.name)), append(t.rules, packed.Rule{})
		if t.rules[0].Quant != "" {
			least = append(least, t.rules[0])
		}
	}
	p, err := a.planOf(ctx, 0, least)
	if err != nil {
		return err
	}
	a.others, a.least = append(a.others, p), p.Bytes
	return nil
}

// step returns what is planned for a tensor, nil for none.
func (p *Plan) step(name string) *step {
	for _, s := range p.steps {
		if s.row.Tensor == name {
			return s
		}
	}
	return nil
}

// isTable reports whether there is a choice of forms for a tensor that is the embedding or the head.
func (a *allocating) isTable(name string) bool {
	return slices.ContainsFunc(a.tables, func(t table) bool { return t.name == name })
}

// codedTables lists the embedding and the forms of the head that a plan makes codes of, which change their values. The
// logits of a screen are those of its head.
func (p *Plan) codedTables() (list []*step) {
	for _, s := range p.steps {
		if s.entry != nil && s.isTable() && s.row.RelError == nil && s.entry.Name != packed.ScreenName {
			list = append(list, s)
		}
	}
	return list
}

// sensedTables is what is to be measured of the tables: those that there is a choice for, and then those that stay.
func (a *allocating) sensedTables(ctx context.Context, floats packed.View) (list []calibrate.Table, err error) {
	var all []*step
	add := func(name string, forms []*step) {
		t := calibrate.Table{Name: name}
		for _, s := range forms {
			t.Use, t.Jobs, all = s.use, append(t.Jobs, s.job), append(all, s)
		}
		list = append(list, t)
	}
	for _, t := range a.tables {
		add(t.name, t.forms[:len(t.forms)-1])
	}
	for _, s := range a.stay {
		add(s.from.Name, []*step{s})
	}
	all = slices.DeleteFunc(all, func(s *step) bool { return !s.entry.Calibrated })
	choices, err := a.plans[0].choicesFor(ctx, floats, all)
	for i := range list {
		list[i].Choice = choices[list[i].Use]
	}
	return list, err
}

// options are the forms of a table, with what they cost; without a rule that is nothing.
func (t *table) options(costs []float64) (list []option) {
	for i, s := range t.forms {
		o := option{bytes: s.row.BytesOut}
		if i < len(costs) {
			o.cost = costs[i]
		}
		list = append(list, o)
	}
	return list
}

// tableBytes is what the tables take in the smallest forms, and as they are without rules.
func (a *allocating) tableBytes() (smallest, largest int64) {
	for _, t := range a.tables {
		smallest += t.forms[0].row.BytesOut
		largest += t.forms[len(t.forms)-1].row.BytesOut
	}
	return smallest, largest
}

// tableForms describes a choice for the tables.
func (a *allocating) tableForms(choice []int) (list []TableForm) {
	for i, t := range a.tables {
		list = append(list, TableForm{Name: t.name, Rule: t.rules[choice[i]]})
	}
	return list
}
