package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
)

// budgetNames are the flags that bound the packed file.
var budgetNames = []string{"size", "bits", "min-quality"}

// budgetFlags bound the size of the packed file, or its quality.
func budgetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "size", Action: checkSize("size"),
			Usage: "choose codes of 3, 4, 5, 6 or 8 bits for each linear layer, or those that the checkpoint has, " +
				"and of 4, 6 or 8 bits or none for the embedding and the output head, by what they cost on the " +
				"text of --calibrate, so that the packed file has at most `SIZE`, such as 1.2GB"},
		number(0, true, 16, &cli.Float64Flag{Name: "bits", DefaultText: "none",
			Usage: "as --size, so that the linear layers have at most `N` bits per weight, scales included, with " +
				"the embedding and the head as --head has them"}),
		number(1, true, 1000, &cli.Float64Flag{Name: "min-quality", DefaultText: "none",
			Usage: "as --size, for the smallest file with at most `RATIO` times the perplexity of the floats, as " +
				"expected of codes that --method chooses"}),
	}
}

// decideBudget puts the forms that a bound of size or quality asks for into the recipe, and returns what to tell of
// them.
func decideBudget(c *cli.Context, source string, o *convert.Options) (notes []string, err error) {
	b := convert.Budget{Bits: c.Float64("bits"), Ratio: c.Float64("min-quality")}
	if text := c.String("size"); text != "" {
		if b.Bytes, err = parseSize(text); err != nil {
			return nil, err
		}
	}
	if b == (convert.Budget{}) {
		return nil, nil
	}
	given := givenBudgets(c)
	if len(given) > 1 {
		return nil, usagef("--%s each bound the file: name one of them", strings.Join(given, " and --"))
	}
	for _, name := range []string{"recipe", "quant", "scale", "part", "resume"} {
		if c.IsSet(name) {
			return nil, usagef("--%s chooses the forms of all linear layers, for one conversion: leave out --%s, or "+
				"give the recipe of a report back with --recipe", given[0], name)
		}
	}
	if c.String("calibrate") == "" {
		return nil, usagef("--%s measures the layers on a text: name one with --calibrate TEXT", given[0])
	}
	beside := c.String("output")
	if beside == "" {
		dir, err := os.MkdirTemp("", "lowpack")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		beside = filepath.Join(dir, "model")
	}
	measured, bar := *o, newProgress(besideResult(c), "measure")
	if !c.IsSet("head") {
		measured.Recipe.Head = "" // is chosen
	}
	measured.Progress = barOf(bar)
	a, err := convert.Allocate(c.Context, source, measured, b, beside)
	bar.done()
	if err != nil {
		return nil, err
	}
	*o = a.Apply(*o)
	return []string{allocationNote(a)}, nil
}

// givenBudgets lists the bounds that are set.
func givenBudgets(c *cli.Context) []string {
	return slices.DeleteFunc(slices.Clone(budgetNames), func(name string) bool { return !c.IsSet(name) })
}

// allocationNote tells what is expected of a file.
func allocationNote(a *convert.Allocation) string {
	var shares, alone []string
	for _, f := range a.Forms {
		if f.Weights > 0 {
			shares = append(shares, fmt.Sprintf("%.0f %% %s", 100*float64(f.Weights)/float64(a.Weights), f.Name))
		}
		alone = append(alone, fmt.Sprintf("%s %s and %.4f", f.Name, size(f.Bytes), f.Divergence))
	}
	tables := ""
	for _, t := range bench.Tables(a) {
		tables += fmt.Sprintf("; %s %s", t.Name, t.Form)
	}
	wide := ""
	if a.Wide {
		wide = " (16 bits: 8 would cost more than the weights; devices refuse them, --activation group:32 keeps 8)"
	}
	return fmt.Sprintf("%s, %.3f bits per weight of the linear layers: %s%s; activations %s%s. Expected %s: a KL "+
		"divergence of %.4f nats per token from the floats, %.4f of it from the activations, and %.3f times their "+
		"perplexity; one form for all layers, with all else as it is, would have: %s",
		size(a.Bytes), a.Bits, strings.Join(shares, ", "), tables,
		a.Activation, wide, bench.Expectation(a.Method), a.Divergence, a.Activation.Divergence, math.Exp(a.Divergence),
		strings.Join(alone, ", "))
}

// rulesText writes rules as a recipe file, a line for each. What is not set is left out.
func rulesText(rules []packed.Rule) string {
	type line struct {
		Match  string         `yaml:"match"`
		Quant  string         `yaml:"quant,omitempty"`
		Layout string         `yaml:"layout,omitempty"`
		Params map[string]int `yaml:"params,omitempty"`
		Scale  string         `yaml:"scale,omitempty"`
		Keep   bool           `yaml:"keep,omitempty"`
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, r := range rules {
		n := &yaml.Node{}
		if err := n.Encode(line(r)); err != nil {
			panic(err) // strings and integers alone
		}
		n.Style = yaml.FlowStyle
		list.Content = append(list.Content, n)
	}
	text, err := yaml.Marshal(map[string]any{"rules": list})
	if err != nil {
		panic(err) // as above
	}
	return string(text)
}
