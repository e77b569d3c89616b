package convert

import (
	"cmp"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Options of a conversion. The zero value follows the checkpoint's declaration.
type Options struct {
	// Recipe determines the bytes of the file. Empty fields mean the default; NewPlan refuses unknown words with
	// pack.ErrUnsupported.
	Recipe packed.Recipe

	Threads  int      // goroutines that compute; 0 = one per CPU. The bytes do not depend on it
	Progress Progress // progress of Run; nil = none

	// Resume resumes an interrupted Run, and keeps partial state next to the target on interruption.
	Resume bool

	// Part of Parts is the part to write, for Merge: 1 to Parts, of at most MaxParts. Both 0 = everything.
	Part, Parts int

	// Report collects the data of Plan.Report, at the cost of counting codes and measuring errors. It cannot be
	// combined with Resume and Part.
	Report bool

	// Calibration has texts of at least 256 tokens together. Before Run quantizes, it evaluates the unquantized model
	// on windows of them, one text after another, and chooses scales for the inputs of the linear layers and of the
	// output head. nil = scales depend on the weights alone.
	Calibration []Document
	// Self has the unquantized model write its own calibration text, for users without one (QUANTIZATION N73). It
	// cannot be combined with Calibration.
	Self      bool
	Method    packed.Method // of calibration; "" = packed.GPTQ
	tokenized *tokenized    // the text; nil = NewPlan is to read it, or Run to have it written
}

// calibrates reports whether there is, or will be, a calibration text.
func (o *Options) calibrates() bool { return o.Self || o.Calibration != nil }

// Values of Recipe.Quant that are not the name of a rule of package quantize.
const (
	QuantAuto = "auto" // what the checkpoint declares, or what its values are already
	QuantNone = "none" // floats stay floats
)

// DefaultLayout is used when the user names none, unless codes of 3, 5, 6 or 8 bits are requested, which it cannot
// hold.
const DefaultLayout = "vnni4i"

// LayoutFor returns the default layout for a value of Recipe.Quant.
func LayoutFor(quant string) string {
	if quant == pack.Int8.Name {
		return headLayouts[quant]
	}
	return cmp.Or(ownLayouts[quant], DefaultLayout) // rules for integers have the names of their alphabets
}

// complete fills in defaults and refuses unknown words, before anything is read.
func (o *Options) complete() error {
	r := &o.Recipe
	r.Calibration = nil // for the plan to fill in
	r.Quant = cmp.Or(r.Quant, QuantAuto)
	r.Layout = cmp.Or(r.Layout, LayoutFor(r.Quant))
	r.Golden = cmp.Or(r.Golden, packed.GoldenFull)
	o.Method = cmp.Or(o.Method, packed.GPTQ)
	if r.Head == packed.HeadBF16 {
		r.Head = ""
	}
	for _, err := range []error{r.Head.Check(), o.Method.Check(), completeActivation(r), r.Golden.Check()} {
		if err != nil {
			return err
		}
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
	if o.Self && o.Calibration != nil {
		return fmt.Errorf("%w: a calibration text, and one that the model is to write; which one is to be read?",
			pack.ErrUnsupported)
	}
	if o.Report && (o.Resume || o.Parts > 0) {
		return fmt.Errorf("%w: a report needs a conversion that goes through all tensors, "+
			"not one that is resumed or in parts", pack.ErrUnsupported)
	}
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
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
	if r.Keep && r.Quant != "" || (r.Keep || r.Quant == QuantNone) && (r.Layout != "" || r.Scale != "" ||
		len(r.Params) > 0) {
		return fmt.Errorf("%w: a tensor that is kept has no quantizer, layout or scale", pack.ErrUnsupported)
	}
	return checkChoice(r.Quant, r.Layout, r.Scale)
}

// checkChoice refuses unknown words. Empty ones mean the default.
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

// CheckScale reports whether a text is a valid scale granularity.
func CheckScale(text string) error {
	_, _, err := parseScale(text)
	return err
}

// parseScale reads tensor, row or group:N; an empty text leaves the kind to the quantizer.
func parseScale(text string) (kind quantize.ScaleKind, group int, err error) {
	switch kind := quantize.ScaleKind(text); kind {
	case "", quantize.PerTensor, quantize.PerRow:
		return kind, 0, nil
	}
	if n, ok := strings.CutPrefix(text, string(quantize.PerGroup)+":"); ok {
		if group, err = strconv.Atoi(n); err == nil && group > 0 && group <= pack.MaxDim {
			return quantize.PerGroup, group, nil
		}
	}
	return "", 0, fmt.Errorf("%w: scale %q; it is tensor, row or group:N with N columns", pack.ErrUnsupported, text)
}

// choice is what the recipe chooses for one tensor.
type choice struct {
	quant, layout, scale string
	params               map[string]int
	keep                 bool
	explicit             bool   // the user named this quantizer
	ruled                string // the pattern of the rule that names the layout; "" = none does
}

// choose applies the rules of the recipe, the first match deciding, then the general choices.
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
			c.layout, c.params, c.ruled = rule.Layout, nil, rule.Match
		}
		if rule.Params != nil {
			c.params, c.ruled = rule.Params, rule.Match
		}
		break
	}
	c.explicit = c.quant != QuantAuto && c.quant != QuantNone
	return c
}

// included reports whether the recipe allows quantizing a matrix.
func included(r *packed.Recipe, name string) bool {
	return len(r.Include) == 0 || slices.ContainsFunc(r.Include, func(pattern string) bool {
		matched, _ := path.Match(pattern, name)
		return matched
	})
}
