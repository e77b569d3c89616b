package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/plot"
)

//go:generate go run . bench chart ../../docs/benchmarks --into ../../docs/BENCHMARKS.md
//go:generate go run . bench chart ../../docs/benchmarks --test "bitnet-2b4t, prompt of 512" --svg ../../docs/prefill.svg
//go:generate go run . bench chart ../../docs/benchmarks --test "bitnet-2b4t, generate 64" --svg ../../docs/decode.svg
//go:generate go run ../../internal/testkit/figures ../..

func benchChartCommand() *cli.Command {
	return &cli.Command{
		Name:      "chart",
		Usage:     "show what bench report measured",
		ArgsUsage: "FILE",
		UsageText: "lowpack bench chart FILE [flags]",
		Description: `FILE is JSON of lowpack bench report, or a directory with some, of which the newest of each machine is shown: a table of
each as Markdown, printed or written between the lines "` + bench.TablesBegin + `" and
"` + bench.TablesEnd + `" of a document; or a chart of one test.

  lowpack bench chart my-cpu.json
  lowpack bench chart docs/benchmarks --into docs/BENCHMARKS.md
  lowpack bench chart docs/benchmarks --test "bitnet-2b4t, generate 64" --svg decode.svg`,
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
	list, err := readReports(file)
	if err != nil {
		return err
	}
	test, tests := c.String("test"), bench.Tests(list)
	if test == "" && len(tests) > 0 {
		test = tests[0]
	}
	if test != "" && !slices.Contains(tests, test) {
		return usagef("invalid --test %q: %s has %s%s", test, file, strings.Join(tests, "; "), didYouMean(test, tests))
	}
	svg, into := c.String("svg"), c.String("into")
	switch {
	case svg != "" && into != "":
		return usagef("--svg and --into cannot be combined")
	case svg != "":
		return writeFile(svg, func(w io.Writer) error { return plot.SVG(w, bench.Plot(list, test)) })
	case into != "":
		return filerr.Named(into, writeTables(into, list))
	}
	_, err = io.WriteString(c.App.Writer, bench.Markdown(list))
	return err
}

// readReports reads a report, or the newest ones of a directory.
func readReports(path string) (list []*bench.Report, err error) {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		r, err := readReport(file)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return bench.Newest(list), nil
}

// writeTables replaces the tables of a document.
func writeTables(file string, list []*bench.Report) error {
	text, err := readSmall(file, 1<<20)
	if err != nil {
		return err
	}
	text, err = bench.Into(text, list)
	if err != nil {
		return err
	}
	return writeFile(file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
