package convert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Budget bounds what a packed file takes, or what it costs: one of the three is set.
type Budget struct {
	Bytes int64   // of the file, everything included
	Bits  float64 // per weight of the linear layers for which forms are chosen, scales included
	Ratio float64 // of the expected perplexity, e^divergence, to that of the floats; the file is as small as it can be
}

// Allocation is a form for each linear layer, chosen to fit a budget, and for the embedding and the head where they are
// chosen too.
type Allocation struct {
	Budget     Budget        // that it was chosen for
	Rules      []packed.Rule // for Recipe.Rules
	Tables     []TableForm
	Bytes      int64         // of the file
	Weights    int64         // of the linear layers for which forms are chosen
	Bits       float64       // per such weight, scales included
	Divergence float64       // expected KL divergence from the floats, in nats per token: of weights and activations
	Activation Rounding      // of the file
	Wide       bool          // it has 16 bits, as 8 would cost more than the weights
	Method     packed.Method // that is expected to choose the codes of the file, for all divergences
	Forms      []FormShare
	experts    []string   // weights that the calibration leaves alone
	tokenized  *tokenized // of Options
}

// Rounding is what rounded activations cost.
type Rounding struct {
	packed.Activation
	Divergence float64 // expected, as of Allocation
}

// Apply returns options of a conversion with the chosen forms. The calibration text stays if any of them has a use for
// it: that of Allocate, as tokens.
func (a *Allocation) Apply(o Options) Options {
	o.Recipe.AllowLossy, o.Recipe.Rules, o.tokenized = true, a.Rules, a.tokenized
	if a.Wide {
		o.Recipe.Activation = a.Activation.String()
	}
	head := packed.Rule{Quant: string(o.Recipe.Head)} // the quantizers have these names
	if !a.calibrates(head) && !slices.ContainsFunc(a.Rules, a.calibrates) {
		o.Calibration, o.Self, o.tokenized = nil, false, nil
	}
	return o
}

// calibrates reports whether the codes of a rule are chosen for the calibration text: those of experts are not.
func (a *Allocation) calibrates(r packed.Rule) bool {
	rule, _ := quantize.Find(r.Quant)
	return rule.Calibrates() && !slices.Contains(a.experts, r.Match)
}

// FormShare is a form that an Allocation chooses from.
type FormShare struct {
	Name    string
	Weights int64 // that have it

	// Of a file in which all have it.
	Bytes      int64
	Divergence float64
	Activation packed.Activation
}

// budgetForms are the forms that Allocate chooses from, the one with the fewest bits first. Which of int8 takes more
// depends on the columns: a row of few has a scale of 32 bits where a group has one of 16. Codes of 3 bits cost less
// than their errors, in proportion to those of 4 bits, would have it; both are measured.
var budgetForms = [...]struct {
	packed.Rule
	measured bool
}{
	{packed.Rule{Quant: "int3", Scale: "group:64"}, true}, {packed.Rule{Quant: "int3", Scale: "group:32"}, false},
	{packed.Rule{Quant: "iq4nl", Scale: "group:64"}, true}, {packed.Rule{Quant: "iq4nl", Scale: "group:32"}, false},
	{packed.Rule{Quant: "int5", Scale: "group:64"}, false}, {packed.Rule{Quant: "int6", Scale: "group:64"}, false},
	{packed.Rule{Quant: "int8", Scale: "row"}, false}, {packed.Rule{Quant: "int8", Scale: "group:64"}, false},
}

// Bounds on the calibration text for sensitivities. The model computes the windows of probeTokens once per group of
// weights with the same inputs.
const (
	columnTokens  = 4096
	columnWindows = columnTokens / calibrationWindow
	probeTokens   = 256
	probeWindow   = 128
)

// Allocate chooses forms of the linear layers for which the least divergence from the floats is expected, on
// o.Calibration, within the budget, or the smallest ones for which no more than the budget is expected. Codes that the
// checkpoint has of a layer are one of its forms: the floats are what they stand for. Layers that the recipe could not
// calibrate, such as those it does not include, are as it has them without a quantizer; it has no rules. The embedding
// and the head have forms too, unless the recipe does not include them or names a head, packed.HeadBF16 among others,
// or the budget counts bits per weight. The experts of a block have one form for each of their projections. The floats
// lie in a file next to target meanwhile. A size below the smallest forms is refused before anything is computed.
func Allocate(ctx context.Context, path string, o Options, b Budget, target string) (*Allocation, error) {
	a := &allocating{path: path, o: o, budget: b}
	a.apart = b.Bits > 0 || o.Recipe.Head != ""
	defer a.close()
	if err := a.plan(ctx); err != nil {
		return nil, err
	}
	room, err := a.room()
	if err != nil {
		return nil, err
	}
	if err := a.measure(ctx, target); err != nil {
		return nil, err
	}
	return a.solve(ctx, room)
}

// allocating is the state of Allocate.
type allocating struct {
	path    string
	o       Options
	budget  Budget
	plans   [len(budgetForms)]*Plan    // with one form for all
	asIs    *Plan                      // of others, with the codes that are kept; nil = there are none
	others  []*Plan                    // with the smallest one, and forms of the tables; with what is kept
	names   []string                   // of the weights for which forms are chosen
	experts []string                   // those of them that are of experts
	rows    map[string][kept + 1]*step // of the weights for which forms are chosen; nil = they are not kept
	groups  []calibrate.Group
	apart   bool    // the embedding and the head stay as the recipe has them
	stay    []*step // those of them that have codes all the same
	fixed   float64 // what these cost
	tables  []table
	least   int64           // bytes of a file with the smallest forms of all
	items   [][]option      // of the groups and, after them, of the tables
	rounds  []Rounding      // of activations that files may have
	heads   []float64       // what each of them costs, in addition, where the head has codes
	count   int64           // of weights
	bytes   [kept + 1]int64 // of all weights in one form, or that can be kept
}

func (a *allocating) close() {
	for _, p := range append(a.plans[:], a.others...) {
		if p != nil {
			p.Close()
		}
	}
}

// plan plans conversions with one form for all weights that there is a choice for: those of linear layers whose scales
// could be calibrated.
func (a *allocating) plan(ctx context.Context) error {
	if r := a.o.Recipe; !a.o.calibrates() || len(r.Rules) > 0 || r.Scale != "" {
		return fmt.Errorf("%w: forms are chosen for a size with a calibration text, in place of rules and scale",
			pack.ErrUnsupported)
	}
	names, err := a.choosable(ctx)
	if err != nil {
		return err
	}
	a.rows = map[string][kept + 1]*step{}
	a.names = names
	for form := range budgetForms {
		p, err := a.planOf(ctx, form, nil)
		if err != nil {
			return err
		}
		a.plans[form] = p
		a.planned(form, p)
	}
	if err := a.planKept(ctx); err != nil {
		return err
	}
	for _, row := range a.rows {
		for form, s := range row {
			if s != nil {
				a.bytes[form] += s.row.BytesOut
			}
		}
		a.count += int64(row[0].job.Shape.M) * int64(row[0].job.Shape.K)
	}
	return a.planTables(ctx)
}

// planned notes the steps of a plan for the weights that there is a choice for, those that keep codes if they are
// exact.
func (a *allocating) planned(form int, p *Plan) {
	for _, s := range p.steps {
		exact := s.entry != nil && s.row.RelError != nil && *s.row.RelError == 0
		if slices.Contains(a.names, s.row.Tensor) && (form < kept || exact) {
			row := a.rows[s.row.Tensor]
			row[form] = s
			a.rows[s.row.Tensor] = row
		}
	}
}

// planOf plans a conversion with one form for all layers, and rules for the tables.
func (a *allocating) planOf(ctx context.Context, form int, tables []packed.Rule) (*Plan, error) {
	rules := slices.Clone(tables)
	for _, name := range a.names {
		rules = append(rules, a.rule(form, name))
	}
	return a.planBy(ctx, rules)
}

// planBy plans a conversion by rules.
func (a *allocating) planBy(ctx context.Context, rules []packed.Rule) (*Plan, error) {
	all := Allocation{Rules: rules, experts: a.experts, tokenized: a.o.tokenized}
	return NewPlan(ctx, a.path, all.Apply(a.o))
}

// choosable lists the weights that a conversion of everything to the smallest form calibrates, and those of experts.
// Plans after this one use the tokens of its text.
func (a *allocating) choosable(ctx context.Context) (names []string, err error) {
	p, err := a.planBy(ctx, []packed.Rule{a.rule(0, "*")})
	if errors.As(err, new(noEffect)) {
		return nil, a.nothingToChoose()
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	a.o.tokenized = p.o.tokenized
	for _, s := range p.steps {
		if s.entry == nil || s.isTable() {
			continue
		}
		experts := s.quantizesExperts()
		if experts {
			a.experts = append(a.experts, s.entry.Name)
		}
		if experts || s.entry.Calibrated {
			names = append(names, s.entry.Name)
		}
	}
	if len(names) == 0 {
		return nil, a.nothingToChoose()
	}
	return names, nil
}

// nothingToChoose is the error for a checkpoint, or a part of it, without linear layers of floats.
func (a *allocating) nothingToChoose() error {
	return filerr.Named(a.path, fmt.Errorf("%w: there is no linear layer whose form could be chosen for a size: none "+
		"of floats is included; include some, or leave out the size", pack.ErrUnsupported))
}

// room is what the linear layers and the tables may take. The size of a file is nearly that of its tensors.
func (a *allocating) room() (int64, error) {
	smallest, largest := a.tableBytes()
	rest := a.least - a.bytes[0] - smallest
	room := int64(a.budget.Bits * float64(a.count) / 8)
	switch {
	case a.budget.Bytes > 0:
		room = a.budget.Bytes - rest
	case a.budget.Ratio > 0:
		room = a.largest() + a.bytes[kept] + largest
	}
	if room >= a.bytes[0]+smallest {
		return room, nil
	}
	from, to := a.bitRange()
	most := int64(0)
	for _, p := range a.plans {
		most = max(most, p.Bytes)
	}
	return 0, fmt.Errorf("%w: forms of the linear layers can be chosen for files of %d to %d bytes, which is %.2f to "+
		"%.2f bits per weight of these layers; %d bytes are embeddings, head and all else", pack.ErrLimit,
		a.least, most, from, to, rest+smallest)
}

// rule gives a form to the tensors that match.
func (a *allocating) rule(form int, match string) packed.Rule {
	return a.named(budgetForms[form].Rule, match)
}

// named is a rule for the tensors that match, with the layout that its codes have.
func (a *allocating) named(r packed.Rule, match string) packed.Rule {
	r.Match, r.Layout = match, LayoutFor(r.Quant)
	if r.Layout == DefaultLayout {
		r.Layout = a.o.Recipe.Layout
	}
	return r
}

// measure computes the sensitivities.
func (a *allocating) measure(ctx context.Context, target string) error {
	p := a.plans[0]
	var forms []calibrate.Form
	for i, form := range budgetForms {
		jobs := map[string]quantize.Job{}
		for name, row := range a.rows {
			jobs[name] = row[i].job
		}
		forms = append(forms, calibrate.Form{Jobs: jobs, Measured: form.measured})
	}
	return p.withFloats(ctx, target, func(floats packed.View) error {
		if p.windows == nil {
			if err := p.write(ctx, floats); err != nil {
				return err
			}
		}
		s, err := p.sensing(ctx, floats)
		if err != nil {
			return err
		}
		s.Activations, s.Head = a.activations(), p.model.Head
		if s.Tables, err = a.sensedTables(ctx, floats); err != nil {
			return err
		}
		for _, name := range a.experts {
			x := calibrate.Experts{Name: name}
			for _, part := range a.rows[name][0].source.Parts {
				x.Parts = append(x.Parts, part.Name)
			}
			s.Experts = append(s.Experts, x)
		}
		costs, err := calibrate.Sensitivities(ctx, floats, forms, s)
		if err != nil {
			return err
		}
		a.groups, a.items = costs.Groups, a.options(costs)
		for _, cost := range costs.Tables[len(a.tables):] {
			a.fixed += cost[0]
		}
		for i, d := range costs.Activations {
			a.rounds = append(a.rounds, Rounding{s.Activations[i], d})
		}
		a.heads = costs.Head
		return nil
	})
}

// sensing says what the groups of layers are measured with: what the method of the calibration makes of a form. Windows
// that are probed stay out of the Gram matrices, unless there are no others, as a file is for other texts.
func (p *Plan) sensing(ctx context.Context, floats packed.View) (s calibrate.Sensing, err error) {
	s.Threads, s.Progress = p.o.Threads, p.o.Progress.in(SensitivityPhase)
	for _, w := range p.probed() {
		s.Probes = append(s.Probes, w[:min(len(w), probeWindow)])
	}
	if p.o.Method == packed.MeanSquare {
		s.Columns, err = p.columnsOf(ctx, floats, some(p.windows, columnWindows))
		return s, err
	}
	s.Windows = p.others()
	return s, nil
}

// probed lists the windows that are probed.
func (p *Plan) probed() [][]int { return some(p.windows, probeTokens/probeWindow) }

// others lists windows that are not probed, unless there are none.
func (p *Plan) others() [][]int {
	others, probed := p.windows, p.probed()
	if len(others) > len(probed) {
		others = slices.DeleteFunc(slices.Clone(others), func(w []int) bool {
			return slices.ContainsFunc(probed, func(q []int) bool { return &q[0] == &w[0] })
		})
	}
	return some(others, columnWindows)
}

// options returns the forms that each group of layers, and each table, has a choice of.
func (a *allocating) options(costs *calibrate.Costs) (items [][]option) {
	for _, g := range costs.Groups {
		options := make([]option, len(budgetForms))
		for form := range budgetForms {
			options[form].cost = g.Divergences[form]
			for _, name := range g.Names {
				options[form].bytes += a.rows[name][form].row.BytesOut
			}
		}
		if o, ok := a.keeping(g.Names); ok {
			options = append(options, o)
		}
		items = append(items, options)
	}
	for i, t := range a.tables {
		items = append(items, t.options(costs.Tables[i]))
	}
	return items
}

// some returns at most n windows at equal distances.
func some(windows [][]int, n int) (list [][]int) {
	n = min(n, len(windows))
	for i := range n {
		list = append(list, windows[i*len(windows)/n])
	}
	return list
}

// solve chooses the forms. What the header and the padding add depends on the choice, which is made again if they do
// not fit: at last with the smallest form for all. If not even that fits, as what the header says of its activations is
// longer than planned, the budget is too small.
func (a *allocating) solve(ctx context.Context, room int64) (*Allocation, error) {
	for {
		choice, err := a.choose(room)
		if err != nil {
			return nil, err
		}
		r, err := a.result(ctx, choice)
		if err != nil || a.budget.Bytes == 0 || r.Bytes <= a.budget.Bytes {
			return r, err
		}
		if !slices.ContainsFunc(choice, func(form int) bool { return form > 0 }) {
			a.least = r.Bytes
			_, err := a.room()
			return nil, err
		}
		room -= r.Bytes - a.budget.Bytes
	}
}

// choose returns the form of each group: with the least divergence in so many bytes, or in the fewest bytes with the
// divergence that the budget allows.
func (a *allocating) choose(room int64) ([]int, error) {
	if a.budget.Ratio == 0 {
		return a.within(room), nil
	}
	ratio := func(room int64) float64 {
		d, _ := a.expect(a.within(room))
		return math.Exp(d)
	}
	fits := func(room int64) bool { return ratio(room) <= a.budget.Ratio }
	if !fits(room) {
		return nil, fmt.Errorf("%w: with the best form for each linear layer, %.4f times the perplexity of the floats "+
			"is expected, more than %g times", pack.ErrLimit, ratio(room), a.budget.Ratio)
	}
	smallest, _ := a.tableBytes()
	least := a.bytes[0] + smallest // more bytes cost no more, but for the activations that go with a choice
	more := sort.Search(int(room-least), func(more int) bool { return fits(least + int64(more)) })
	return a.within(least + int64(more)), nil
}

// within returns the choice with the least divergence in so many bytes, the smallest one if none fits. What a head of
// codes costs depends on the activations, which go with the choice: there is one for each, the best of which counts.
func (a *allocating) within(room int64) []int {
	best, least := make([]int, len(a.items)), math.Inf(1)
	for _, items := range a.itemsByHead() {
		choice := knapsack(items, room)
		if choice == nil {
			break
		}
		a.keepNoLarger(choice)
		if d, _ := a.expect(choice); d < least {
			best, least = choice, d
		}
	}
	return best
}

// expect returns the expected divergence of a file, and which part of it is of activations.
func (a *allocating) expect(choice []int) (float64, Rounding) {
	weights := a.fixed
	for i, form := range choice {
		weights += a.items[i][form].cost
	}
	r := a.rounding(choice, weights)
	return weights + r.Divergence, r
}

// uniform is the choice of one form for all layers, those that cannot be kept in the largest form, with the tables as
// they are.
func (a *allocating) uniform(form int) (choice []int) {
	for i := range a.groups {
		choice = append(choice, min(form, len(a.items[i])-1))
	}
	for _, t := range a.tables {
		choice = append(choice, len(t.forms)-1)
	}
	return choice
}

// result describes a choice.
func (a *allocating) result(ctx context.Context, choice []int) (*Allocation, error) {
	r := &Allocation{Budget: a.budget, Weights: a.count, Method: a.plans[0].o.Method, experts: a.experts,
		tokenized: a.plans[0].o.tokenized}
	r.Divergence, r.Activation = a.expect(choice)
	r.Wide = r.Activation.Activation != a.usual(choice)
	for form, rule := range budgetForms {
		r.Forms = append(r.Forms, a.formShare(form, rule.Quant+" "+rule.Scale, a.plans[form]))
	}
	if a.asIs != nil {
		r.Forms = append(r.Forms, a.formShare(kept, "kept codes", a.asIs))
	}
	r.Tables = a.tableForms(choice[len(a.groups):])
	for _, t := range r.Tables {
		if t.Rule.Quant != "" {
			r.Rules = append(r.Rules, t.Rule)
		}
	}
	bytes := int64(0)
	for i, g := range a.groups {
		form := choice[i]
		bytes += a.items[i][form].bytes
		for _, name := range g.Names {
			if form < kept {
				r.Rules = append(r.Rules, a.rule(form, name))
			}
			shape := a.rows[name][0].job.Shape
			r.Forms[form].Weights += int64(shape.M) * int64(shape.K)
		}
	}
	r.Bits = 8 * float64(bytes) / float64(a.count)
	p, err := NewPlan(ctx, a.path, r.Apply(a.o))
	if err != nil {
		return nil, err
	}
	r.Bytes = p.Bytes
	return r, p.Close()
}

// formShare describes a file with one form for all layers, as it is planned.
func (a *allocating) formShare(form int, name string, p *Plan) FormShare {
	d, rounding := a.expect(a.uniform(form))
	return FormShare{Name: name, Bytes: p.Bytes, Divergence: d, Activation: rounding.Activation}
}
