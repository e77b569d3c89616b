package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
)

func benchKernelsCommand() *cli.Command {
	return &cli.Command{
		Name: "kernels",
		Usage: "measure the kernels and the other parts of layers, check their results, and tell which kernels the " +
			"runtime chooses",
		UsageText: "lowpack bench kernels [flags]",
		Description: `Each kernel multiplies random matrices, whose weights come from memory, by random activations, and every product is
compared with that of the definition. Without --layout, every kernel is measured once, on the layout that it was written
for; a star marks those that the runtime chooses for these codes. Vec-LUT adds where others multiply, and may pass the
limit of multiplication.

A second table has the parts of layers that are no matrices (attention over the KV cache, latent attention, gated delta
rule, SSD, short convolution), each as the runtime computes it between two linear layers, with the shapes of a published
model, random inputs, and nothing in a cache but these. The last token is compared with the definition, bit for bit.
They are float32, and so is their limit of multiplication. They are measured where no flag chooses matrices. With --part
those parts are measured, and matrices only of a --layout.

` + benchMethod + `

  lowpack bench kernels
  lowpack bench kernels --layout vnni4i --layout i2-t4 --isa avx2 --tokens 1,32,128
  lowpack bench kernels --layout vnni4i --shape 6912x2560 --threads 0 --svg roofline.svg
  lowpack bench kernels --layout vnni4i --group 128 --tokens 1
  lowpack bench kernels --part mla-decode --part delta-prefill`,
		Flags: append([]cli.Flag{
			someOf(&cli.StringSliceFlag{Name: "layout",
				Usage: "measure all kernels that serve the layout `NAME`; may be repeated"}, layoutNames()...),
			like(&cli.StringFlag{Name: "isa",
				Usage:       "measure kernels of these instruction sets only, a `LIST` such as avx2,generic",
				DefaultText: "all of this CPU"}, words(kernel.Available())...),
			&cli.StringSliceFlag{Name: "shape", Value: cli.NewStringSlice("2560x2560"),
				Usage: "multiply matrices of `MxK`: M output and K input features; may be repeated"},
			between(0, pack.MaxDim, &cli.IntFlag{Name: "group",
				Usage:       "group-wise scales, one per `N` columns of a row",
				DefaultText: "sums of rows, not scaled"}),
			someOf(&cli.StringSliceFlag{Name: "part",
				Usage: "measure the part `NAME` of a layer; may be repeated"}, bench.PartNames()...),
			&cli.StringFlag{Name: "tokens", Value: "1,8,128", Usage: "vectors to multiply by at once, as a `LIST`"},
			benchTime(),
		}, benchFlags()...),
		Action: runBenchKernels,
	}
}

func runBenchKernels(c *cli.Context) error {
	if err := wantArgs(c, 0, ""); err != nil {
		return err
	}
	p := newCounter(besideResult(c), "bench", things("measurements"))
	o := bench.KernelOptions{Meter: benchMeter(c, p), Layouts: c.StringSlice("layout"), Group: c.Int("group"),
		Parts: c.StringSlice("part")}
	var err error
	if o.Threads, err = intList(c, "threads"); err != nil {
		return err
	}
	ofMatrices := slices.DeleteFunc([]string{"isa", "shape", "group", "tokens"},
		func(name string) bool { return !c.IsSet(name) })
	layouts := c.IsSet("layout")
	parts := len(o.Parts) > 0
	if parts && len(ofMatrices) > 0 && !layouts {
		return usagef("--%s chooses matrices, and --part none: name a --layout as well, or leave it out", ofMatrices[0])
	}
	if !parts && len(ofMatrices) == 0 && !layouts {
		o.Parts = bench.PartNames()
	}
	if !parts || layouts {
		if err := chooseMatrices(c, &o); err != nil {
			return err
		}
	}
	r, err := bench.Kernels(c.Context, o)
	p.done()
	return showBench(c, r, err, printKernels)
}

// chooseMatrices reads the flags that say which matrices are measured.
func chooseMatrices(c *cli.Context, o *bench.KernelOptions) error {
	var err error
	if o.Tokens, err = intList(c, "tokens"); err != nil {
		return err
	}
	for _, s := range c.StringSlice("shape") {
		shape, err := parseShape(s)
		if err != nil {
			return err
		}
		if err := checkProduct(shape, o.Tokens); err != nil {
			return err
		}
		o.Shapes = append(o.Shapes, shape)
	}
	if list := c.String("isa"); list != "" {
		for _, name := range strings.Split(list, ",") {
			isa := kernel.ISA(strings.TrimSpace(name))
			if !kernel.Have(isa) {
				return unknownWord("--isa", string(isa), words(kernel.Available()))
			}
			o.ISAs = append(o.ISAs, isa)
		}
	}
	return nil
}

// checkProduct refuses a matrix, or inputs and outputs, that take more memory than a machine has.
func checkProduct(s pack.Shape, tokens []int) error {
	const most = 1 << 31 // numbers
	if n := slices.Max(tokens); s.M*s.K > most || n*(s.M+s.K) > most {
		return usagef("invalid --shape %dx%d with %d tokens: a product has at most %d weights, "+
			"and as many inputs and outputs",
			s.M, s.K, n, most)
	}
	return nil
}

func parseShape(s string) (shape pack.Shape, err error) {
	m, k, _ := strings.Cut(s, "x")
	var errM, errK error
	shape.M, errM = strconv.Atoi(m)
	shape.K, errK = strconv.Atoi(k)
	if errM != nil || errK != nil || shape.Check() != nil {
		return shape, usagef("invalid value %q for --shape: want MxK, two integers between 1 and %d, such as 2560x6912",
			s,
			pack.MaxDim)
	}
	return shape, nil
}

func printKernels(w io.Writer, r *bench.KernelReport) {
	printHost(w, &r.Host)
	if len(r.Rows) > 0 {
		printMatrices(w, r)
	}
	if len(r.Parts) > 0 {
		printParts(w, r.Parts)
	}
	if len(r.Choices) > 0 {
		printChoices(w, r.Choices)
		printMeasured(w, r.Measured)
	}
}

func printMatrices(w io.Writer, r *bench.KernelReport) {
	fmt.Fprintln(w)
	rows := [][]string{{"layout", "codes", "kernel", "", "shape", "tokens", "threads", "time", "spread", "GB/s", "GOPS",
		"limit", "of limit"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			continue
		}
		star := ""
		if row.Chosen {
			star = "*"
		}
		line := []string{row.Layout, row.Alphabet, row.Kernel, star, productText(row), strconv.Itoa(row.Tokens),
			strconv.Itoa(row.Threads)}
		rows = append(rows, append(line, figureCells(row.Wrong, &row.Figures)...))
	}
	table(w, map[int]bool{5: true, 6: true, 7: true, 8: true, 9: true, 10: true, 12: true}, rows)
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Refused != "" {
			fmt.Fprintf(w, "%s, %s, %s: not measured: %s\n", row.Layout, row.ISA, productText(row), row.Refused)
		}
	}
	for _, f := range r.Faster() {
		fmt.Fprintf(w, "%s ×%d, %s: %s was %.2f times as fast as %s, which the runtime chooses\n", f.Row.Layout,
			f.Row.Tokens,
			bench.Threads(f.Row.Threads), f.Row.Kernel, f.Chosen.Seconds.Median/f.Row.Seconds.Median, f.Chosen.Kernel)
	}
}

// figureCells are the cells of a kernel or part from its time on.
func figureCells(wrong string, f *bench.Figures) []string {
	if wrong != "" {
		return []string{"WRONG: " + wrong}
	}
	return []string{bench.Digits(1e6*f.Seconds.Median) + " µs", spreadText(spreadOf(f), f.Noise), bench.Digits(f.GBs),
		bench.Digits(f.GOPS), limitText(f), percentText(f.Fraction.Median)}
}

// printParts prints the parts of layers that are no matrices.
func printParts(w io.Writer, parts []bench.PartRow) {
	fmt.Fprintln(w)
	rows := [][]string{{"part", "shapes of", "tokens", "depth", "threads", "time", "spread", "GB/s", "float GOPS",
		"limit", "of limit"}}
	for i := range parts {
		row := &parts[i]
		line := []string{row.Part, row.Model, strconv.Itoa(row.Tokens), strconv.Itoa(row.Depth),
			strconv.Itoa(row.Threads)}
		rows = append(rows, append(line, figureCells(row.Wrong, &row.Figures)...))
	}
	table(w, map[int]bool{2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true, 10: true}, rows)
}

func productText(row *bench.KernelRow) string {
	s := fmt.Sprintf("%dx%d", row.M, row.K)
	if row.Group > 0 {
		s += fmt.Sprintf("/%d", row.Group)
	}
	return s
}

// printChoices prints which kernel the runtime chooses for each layout and alphabet: alphabets of a layout with the
// same kernel share a row, and so do layouts with the same kernels.
func printChoices(w io.Writer, choices []bench.Choice) {
	fmt.Fprint(w, "\nThe runtime chooses on this CPU:\n")
	type row struct{ layouts, codes, isa, about string }
	var rows []row
	for i, c := range choices {
		r := row{c.Layout, c.Alphabet, string(c.ISA), c.About}
		if i > 0 {
			if last := &rows[len(rows)-1]; last.layouts == r.layouts && last.isa == r.isa && last.about == r.about {
				last.codes += ", " + r.codes
				continue
			}
		}
		rows = append(rows, r)
	}
	var lines [][]string
	for i, r := range rows {
		same := func(o row) bool { return o.codes == r.codes && o.isa == r.isa && o.about == r.about }
		if slices.ContainsFunc(rows[:i], same) {
			continue
		}
		var layouts []string
		for _, o := range rows[i:] {
			if same(o) {
				layouts = append(layouts, o.layouts)
			}
		}
		lines = append(lines, []string{strings.Join(layouts, " "), r.codes, r.isa, r.about})
	}
	table(w, nil, lines)
}

// printMeasured prints the table that the choices rest on.
func printMeasured(w io.Writer, list []kernel.Measurement) {
	fmt.Fprintf(w, "\nIt chooses by instruction set, then by what %s reached, in GOPS:\n", kernel.MeasuredOn)
	rows := [][]string{{"kernel", "codes", "1 token", "128 tokens"}}
	for _, m := range list {
		rows = append(rows, []string{m.Kernel, m.Alphabet, bench.Digits(m.Vector), bench.Digits(m.Batch)})
	}
	table(w, map[int]bool{2: true, 3: true}, rows)
}
