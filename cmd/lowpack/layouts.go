package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/align"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/pack/explain"
)

// layoutsCommand explains layouts. kernels lists the instruction sets that have a dedicated kernel for a layout.
func layoutsCommand(kernels func(layout string) []string) *cli.Command {
	return &cli.Command{
		Name:      "layouts",
		Usage:     "list the weight layouts, or explain one of them",
		ArgsUsage: "NAME",
		UsageText: "lowpack layouts [NAME] [--svg FILE] [--json]",
		Description: `Without NAME, a table of all layouts. With NAME, a page about one: the address of every weight, the code
table, and which weight sits in which bit of which byte.

  lowpack layouts
  lowpack layouts vnni4i
  lowpack layouts vnni4t --svg vnni4t.svg`,
		Flags: []cli.Flag{
			besideFlag("svg", "draw the layout NAME into `FILE`, as a slide"),
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return layouts(c, kernels) },
	}
}

func layouts(c *cli.Context, kernels func(string) []string) error {
	if c.NArg() == 0 {
		if c.IsSet("svg") {
			return usagef("layouts --svg draws one layout: name it")
		}
		return listLayouts(c, kernels)
	}
	if err := wantArgs(c, 1, "NAME"); err != nil {
		return err
	}
	l, err := explain.Of(c.Args().First())
	if err != nil {
		return usagef("%v%s", err, didYouMean(c.Args().First(), allLayoutNames()))
	}
	if file := c.String("svg"); file != "" {
		picture, err := l.SVG()
		if err != nil {
			return err
		}
		if err := writeFile(file, func(w io.Writer) error {
			_, err := io.WriteString(w, picture)
			return err
		}); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, layoutJSON{l, kernels(l.Name)})
	}
	if c.IsSet("svg") {
		return nil
	}
	text, err := l.Text()
	if err != nil {
		return err
	}
	fmt.Fprint(c.App.Writer, text)
	if sets := kernels(l.Name); l.Block == 0 {
		own := "none"
		if len(sets) > 0 {
			own = strings.Join(sets, ", ")
		}
		fmt.Fprintf(c.App.Writer, "\nKernels of its own: %s. Without one it runs all the same, by way "+
			"of another layout.\n",
			own)
	}
	return nil
}

// kernelSets lists the instruction sets of this build's own kernels for a layout, best first.
func kernelSets(layout string) []string {
	var sets []string
	for _, k := range kernel.Kernels() {
		if set := string(k.ISA); k.Layout == layout && !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	return sets
}

// layoutJSON is an element of the output of `lowpack layouts --json`.
type layoutJSON struct {
	*explain.Layout
	Kernels []string `json:"kernels"`
}

func listLayouts(c *cli.Context, kernels func(string) []string) error {
	all, err := explain.All()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		var list []layoutJSON
		for _, l := range all {
			list = append(list, layoutJSON{l, kernels(l.Name)})
		}
		return printJSON(c.App.Writer, list)
	}
	rows := [][]string{{"layout", "bits/weight", "alphabets", "padded", "panel", "parameters", "kernels", "from"}}
	exchange := [][]string{{"exchange format", "bits/weight", "alphabet", "required", "from"}}
	for _, l := range all {
		if l.Block != 0 {
			exchange = append(exchange, []string{l.Name, l.BitsPerWeight(), l.AlphabetNames(), l.Shape(), l.Source})
			continue
		}
		panel := "-"
		if l.Panel > 0 {
			panel = fmt.Sprint(l.Panel)
		}
		rows = append(rows, []string{l.Name, l.BitsPerWeight(), strings.ReplaceAll(l.AlphabetNames(), ", ", " "),
			l.Shape(), panel,
			orNone([]string{l.ParamsText()}), orNone(kernels(l.Name)), l.Source})
	}
	out, more := c.App.Writer, ""
	if isTerminal(out) {
		all := len(rows[0])
		if rows, exchange = narrow(rows, width(out)), narrow(exchange, width(out)); len(rows[0]) < all {
			more = " A wider terminal shows more columns."
		}
	}
	table(out, map[int]bool{4: true}, rows)
	fmt.Fprintln(out)
	table(out, nil, exchange)
	fmt.Fprintf(out, "\nThe first alphabet is the default.%s\n`lowpack layouts %s` explains a layout.\n", more,
		pack.Layouts()[0].Name)
	return nil
}

// narrow drops the last columns of a table that is wider than a terminal with the given columns; the first two always
// stay.
func narrow(rows [][]string, columns int) [][]string {
	fits, wide := 0, 0
	for i, w := range align.Widths(rows) {
		if wide += w; i < 2 || wide+2*i <= columns { // two spaces between columns
			fits = i + 1
		}
	}
	var list [][]string
	for _, r := range rows {
		list = append(list, r[:fits])
	}
	return list
}

// orNone joins words, or returns a dash if there are none.
func orNone(words []string) string {
	if s := strings.Join(words, " "); s != "" {
		return s
	}
	return "-"
}
