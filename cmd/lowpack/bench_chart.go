package main

import (
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/plot"
)

//go:generate go run . bench chart ../../docs/benchmarks/runtimes.json --into ../../docs/BENCHMARKS.md
//go:generate go run . bench chart ../../docs/benchmarks/smollm2.json --into ../../docs/BENCHMARKS.md
//go:generate go run . bench chart ../../docs/benchmarks/speculation.json --into ../../docs/BENCHMARKS.md
//go:generate go run . bench chart ../../docs/benchmarks/conversion.json --into ../../docs/BENCHMARKS.md
//go:generate go run . bench chart ../../docs/benchmarks/runtimes.json --svg ../../docs/benchmarks/pp512.svg
//go:generate go run . bench chart ../../docs/benchmarks/runtimes.json --test tg128 --svg ../../docs/benchmarks/tg128.svg

func benchChartCommand() *cli.Command {
	return &cli.Command{
		Name:      "chart",
		Usage:     "compare runtimes from figures in a file",
		ArgsUsage: "FILE",
		UsageText: "lowpack bench chart FILE [flags]",
		Description: `FILE is JSON with figures of several runtimes on one or several machines (schema lowpack.bench.runtimes/1; docs/benchmarks
has some), tokens per second unless it names another unit. Its tables are printed as Markdown, or written between the lines
"` + bench.TablesBegin + `" and "` + bench.TablesEnd + `" of a document; a name that the file
gives to its figures stands before the arrows.

  lowpack bench chart docs/benchmarks/runtimes.json
  lowpack bench chart docs/benchmarks/runtimes.json --into docs/BENCHMARKS.md
  lowpack bench chart docs/benchmarks/runtimes.json --test tg128 --svg decode.svg`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "test", Usage: "draw the figures of this `TEST`", DefaultText: "the first one"},
			besideFlag("svg", "draw a chart to `FILE` instead of printing tables"),
			besideFlag("into", "write the tables into the Markdown `FILE` instead of printing them"),
		},
		Action: runBenchChart,
	}
}

func runBenchChart(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	file := c.Args().First()
	text, err := readSmall(file, 1<<20)
	if err != nil {
		return err
	}
	r, err := bench.ReadRuntimes(text)
	if err != nil {
		return filerr.Named(file, err)
	}
	test, tests := c.String("test"), r.Tests()
	if test == "" && len(tests) > 0 {
		test = tests[0]
	}
	if !slices.Contains(tests, test) {
		return usagef("invalid --test %q: %s has %s%s", test, file, strings.Join(tests, ", "), didYouMean(test, tests))
	}
	svg, into := c.String("svg"), c.String("into")
	switch {
	case svg != "" && into != "":
		return usagef("--svg and --into cannot be combined")
	case svg != "":
		return writeFile(svg, func(w io.Writer) error { return plot.SVG(w, r.Plot(test)) })
	case into != "":
		return filerr.Named(into, writeTables(into, r))
	}
	_, err = io.WriteString(c.App.Writer, r.Markdown())
	return err
}

// writeTables replaces the tables of a document.
func writeTables(file string, r *bench.Runtimes) error {
	text, err := readSmall(file, 1<<20)
	if err != nil {
		return err
	}
	text, err = r.Into(text)
	if err != nil {
		return err
	}
	return writeFile(file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
