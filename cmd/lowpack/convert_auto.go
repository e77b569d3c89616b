package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
)

// auto is the value of --layout and --head that selects the fastest choice measured on this machine.
const auto = "auto"

// decideAuto measures the choices requested as auto, and returns notes about them. Choices that must agree between
// several runs cannot be measured.
func decideAuto(c *cli.Context, source string, o *convert.Options) (notes []string, err error) {
	switch {
	case o.Recipe.Layout != auto && o.Recipe.Head != auto:
		return nil, nil
	case o.Parts > 0 || o.Resume:
		return nil,
			usagef("auto measures this machine, and another run may find something else: name --layout and --head " +
				"for --part and --resume (see lowpack bench recommend)")
	case o.Recipe.Layout == auto && len(givenBudgets(c)) > 0:
		return nil,
			usagef("--layout auto measures the codes of the checkpoint, and --%s chooses others: name a layout, or "+
				"leave out --layout", givenBudgets(c)[0])
	}
	return measureAuto(c, source, o)
}

// autoMeter configures the measurements for auto. Tests use less time and memory.
var autoMeter = bench.Meter{Time: 100 * time.Millisecond, MaxSpread: 0.1}

// measureAuto replaces auto in the recipe by the measured choices, and notes them. Noise is noted, not an error: on a
// busy machine any choice is as good as another.
func measureAuto(c *cli.Context, source string, o *convert.Options) (notes []string, err error) {
	asked := o.Recipe
	if asked.Layout == auto {
		o.Recipe.Layout = ""
	}
	if asked.Head == auto {
		o.Recipe.Head = packed.HeadBF16 // unless another is faster; "" would leave the choice to a budget
	}
	plan, refused, err := planAuto(c.Context, source, *o, asked.Head == auto)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	if refused != nil {
		notes = append(notes, fmt.Sprintf("head %s, the only one for auto here: %v", packed.HeadBF16, refused))
	}
	choices, err := autoChoices(plan, asked.Layout == auto, asked.Head == auto && refused == nil)
	if asked.Layout == auto && len(choices.Body) == 0 {
		notes = append(notes, "--layout auto had nothing to measure: no linear layer is packed, or rules name the "+
			"layouts of all that are")
	}
	if err != nil || len(choices.Body)+len(choices.Heads) == 0 {
		return notes, err
	}
	p := newCounter(besideResult(c), "measure", things("choices"))
	choices.Progress = func(done, total int, at string) { p.set(int64(done), int64(total), at) }
	r, err := bench.Recommend(c.Context, choices)
	p.done()
	if err != nil && !errors.Is(err, bench.ErrNoise) {
		return nil, err
	}
	if errors.Is(err, bench.ErrNoise) {
		notes = append(notes, "the machine was busy while layout and head were measured; "+
			"repeat it when the machine is idle (lowpack bench recommend says how much it was)")
	}
	if best := bench.Fastest(r.Layouts, 0, autoMeter.MaxSpread); best != nil {
		o.Recipe.Layout = best.Name
		notes = append(notes, choiceNote("layout", best))
	}
	if best := bench.Fastest(r.Heads, 0, autoMeter.MaxSpread); best != nil {
		o.Recipe.Head = packed.Head(best.Name)
		notes = append(notes, choiceNote("head", best))
	}
	return notes, nil
}

// autoChoices returns what is to be measured where layouts and heads can be chosen.
func autoChoices(plan *convert.Plan, layouts, heads bool) (o bench.RecommendOptions, err error) {
	o.Meter, o.Tokens = autoMeter, recommendTokens[:1]
	if layouts {
		o.Body = plan.Body()
	}
	if heads {
		o.Heads, err = headForms(plan)
		o.Heads = exactHeads(o.Heads)
	}
	return o, err
}

// planAuto plans the linear layers, whatever the head, without a calibration text: its codes are multiplied as fast as
// others. Where heads are to be chosen, refused says why the other one that auto can take is none: --include leaves it
// out, or a rule of the recipe makes codes of the first.
func planAuto(ctx context.Context, source string, o convert.Options, heads bool) (plan *convert.Plan, refused,
	err error) {
	o.Calibration, o.Self = nil, false
	if heads {
		screened := o
		screened.Recipe.Head = packed.HeadScreen
		plan, refused = convert.NewPlan(ctx, source, screened)
	}
	if plan == nil {
		plan, err = convert.NewPlan(ctx, source, o)
	}
	if err != nil {
		return nil, nil, err
	}
	if _, _, ok := plan.FloatHead(); !ok {
		refused = nil
	}
	return plan, refused, nil
}

func choiceNote(what string, r *bench.RecommendRow) string {
	return fmt.Sprintf("%s %s, the fastest on this machine for one token, which takes %s ms; --%s %s makes the same "+
		"file on every machine", what, r.Name, bench.Digits(1e3*r.Seconds[0].Median), what, r.Name)
}
