package convert

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Options of a conversion.
type Options struct {
	Recipe packed.Recipe // what determines the bytes; empty fields mean the default
	Jobs   int           // goroutines that quantize; 0 = one per CPU. The bytes do not depend on it
	Resume bool          // continue what an interrupted Run left, and leave what an interruption leaves
	Part   int           // write only this part of Parts (counted from 1), for Merge; 0 of 0: everything
	Parts  int
	Report bool // collect what Plan.Report tells, at the cost of counting codes and measuring errors

	// Calibration is a text whose first tokens the floats of the model compute before Run quantizes them: scales are then chosen for
	// what the linear layers multiply in it. "" = scales follow from the weights alone.
	Calibration string
	Method      string // of calibration: one of Methods; "" = the first
}

// Values of Recipe.Quant that are not a quantizer, and of Recipe.Head. Those of Recipe.Golden are golden.Mode.
const (
	QuantAuto = "auto" // what the checkpoint declares, or what its values are already
	QuantNone = "none" // floats stay floats

	HeadBF16 = "bf16" // as in the checkpoint, whatever its type
	HeadInt8 = "int8" // codes with a scale per row
	HeadInt4 = "int4" // codes with a scale per group of 32 columns

	// HeadScreen keeps the head and puts int8 rows beside it (FORMAT F21).
	HeadScreen = "screen"
)

// Heads are the values of Recipe.Head; the first is the default.
var Heads = []string{HeadBF16, HeadInt8, HeadInt4, HeadScreen}

// DefaultLayout is used when the user names none, unless 8-bit codes are asked for, which it does not hold.
const DefaultLayout = "vnni4i"

// LayoutFor is the layout that a value of Recipe.Quant has unless the user names one.
func LayoutFor(quant string) string {
	if quant == pack.Int8.Name {
		return headLayouts[quant]
	}
	return DefaultLayout
}

// complete fills in defaults and refuses unknown words, before anything is read.
func (o *Options) complete() error {
	r := &o.Recipe
	r.Calibration = nil // for the plan to fill in
	for _, d := range []struct {
		field *string
		value string
	}{{&r.Quant, QuantAuto}, {&r.Layout, LayoutFor(r.Quant)}, {&r.Golden, string(golden.Full)}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if r.Head == HeadBF16 {
		r.Head = ""
	}
	if r.Head != "" && !slices.Contains(Heads, r.Head) {
		return fmt.Errorf("%w: head %q; it is one of %s", pack.ErrUnsupported, r.Head, strings.Join(Heads, ", "))
	}
	if o.Method == "" {
		o.Method = Methods[0]
	}
	if !slices.Contains(Methods, o.Method) {
		return fmt.Errorf("%w: method %q; it is one of %s", pack.ErrUnsupported, o.Method, strings.Join(Methods, ", "))
	}
	if err := completeActivation(r); err != nil {
		return err
	}
	if _, err := golden.ParseMode(r.Golden); err != nil {
		return err
	}
	for _, pattern := range r.Include {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%w: pattern %q: %v", pack.ErrUnsupported, pattern, err)
		}
	}
	if err := checkChoice(r.Quant, r.Layout, r.Scale); err != nil {
		return err
	}
	for i, rule := range r.Rules {
		if err := checkRule(rule); err != nil {
			return fmt.Errorf("rule %d of the recipe: %w", i+1, err)
		}
	}
	if err := checkPart(o.Part, o.Parts); err != nil {
		return err
	}
	if o.Report && (o.Resume || o.Parts > 0) {
		return fmt.Errorf("%w: a report needs a conversion that goes through all tensors, not one that is resumed or in parts", pack.ErrUnsupported)
	}
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	return nil
}

func checkRule(r packed.Rule) error {
	if r.Match == "" {
		return fmt.Errorf("%w: it has no pattern (match)", pack.ErrUnsupported)
	}
	if _, err := path.Match(r.Match, ""); err != nil {
		return fmt.Errorf("%w: pattern %q: %v", pack.ErrUnsupported, r.Match, err)
	}
	if r.Keep && (r.Quant != "" || r.Layout != "" || r.Scale != "" || len(r.Params) > 0) {
		return fmt.Errorf("%w: a tensor that is kept has no quantizer, layout or scale", pack.ErrUnsupported)
	}
	return checkChoice(r.Quant, r.Layout, r.Scale)
}

// checkChoice refuses words that name nothing. Empty ones stand for a default.
func checkChoice(quant, layout, scale string) error {
	if quant != "" && quant != QuantAuto && quant != QuantNone {
		if _, err := quantize.Find(quant); err != nil {
			return err
		}
	}
	if layout != "" {
		if _, err := pack.FindLayout(layout); err != nil {
			return err
		}
	}
	return CheckScale(scale)
}

// CheckScale says whether a text names what shares a scale.
func CheckScale(text string) error {
	_, _, err := parseScale(text)
	return err
}

// parseScale reads tensor, row or group:N; an empty text leaves the kind to the quantizer.
func parseScale(text string) (kind string, group int, err error) {
	switch text {
	case "", packed.ScaleTensor, packed.ScaleRow:
		return text, 0, nil
	}
	if n, ok := strings.CutPrefix(text, packed.ScaleGroup+":"); ok {
		if group, err = strconv.Atoi(n); err == nil && group > 0 && group <= pack.MaxDim {
			return packed.ScaleGroup, group, nil
		}
	}
	return "", 0, fmt.Errorf("%w: scale %q; it is tensor, row or group:N with N columns", pack.ErrUnsupported, text)
}

// choice is what the recipe says about one tensor.
type choice struct {
	quant, layout, scale string
	params               map[string]int
	keep                 bool
	explicit             bool // somebody asked for this quantizer by name
}

// choose applies the rules of the recipe, of which the first that matches decides, and the general choices.
func choose(r *packed.Recipe, name string) choice {
	c := choice{quant: r.Quant, layout: r.Layout, scale: r.Scale, params: r.Params}
	for _, rule := range r.Rules {
		if matched, _ := path.Match(rule.Match, name); !matched {
			continue
		}
		c.keep = rule.Keep
		if rule.Quant != "" {
			c.quant, c.scale = rule.Quant, ""
		}
		if rule.Scale != "" {
			c.scale = rule.Scale
		}
		if rule.Layout != "" {
			c.layout, c.params = rule.Layout, nil
		}
		if rule.Params != nil {
			c.params = rule.Params
		}
		break
	}
	c.explicit = c.quant != QuantAuto && c.quant != QuantNone
	return c
}

// included reports whether the recipe lets a matrix be quantized.
func included(r *packed.Recipe, name string) bool {
	return len(r.Include) == 0 || slices.ContainsFunc(r.Include, func(pattern string) bool {
		matched, _ := path.Match(pattern, name)
		return matched
	})
}
