package main

import (
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
		o.Recipe.Head = ""
	}
	plan, err := convert.NewPlan(c.Context, source, *o)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	p, meter := newCounter(besideResult(c), "measure", things("choices")), autoMeter
	meter.Progress = func(done, total int, at string) { p.set(int64(done), int64(total), at) }
	r, err := recommend(c.Context, plan, meter, 0, recommendTokens[:1])
	p.done()
	if err != nil && !errors.Is(err, bench.ErrNoise) {
		return nil, err
	}
	if errors.Is(err, bench.ErrNoise) {
		notes = append(notes, "the machine was busy while layout and head were measured; "+
			"repeat it when the machine is idle (lowpack bench recommend says how much it was)")
	}
	if best := bench.Fastest(r.Layouts, 0, meter.MaxSpread); asked.Layout == auto && best != nil {
		o.Recipe.Layout = best.Name
		notes = append(notes, choiceNote("layout", best))
	}
	if best := bench.Fastest(exactHeads(r), 0, meter.MaxSpread); asked.Head == auto && best != nil {
		o.Recipe.Head = packed.Head(best.Name)
		notes = append(notes, choiceNote("head", best))
	}
	return notes, nil
}

func choiceNote(what string, r *bench.RecommendRow) string {
	return fmt.Sprintf("%s %s, the fastest on this machine for one token, which takes %s ms; --%s %s makes the same "+
		"file on every machine", what, r.Name, bench.Digits(1e3*r.Seconds[0].Median), what, r.Name)
}
