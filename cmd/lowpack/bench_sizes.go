package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
)

// recommendSizes shows what sizes of a checkpoint cost on the text of --calibrate.
func recommendSizes(c *cli.Context, source string) error {
	for _, name := range []string{"quant", "scale", "time", "max-spread"} {
		if c.IsSet(name) {
			return usagef("with --calibrate, forms are chosen for each layer, and no speed is measured: "+
				"leave out --%s", name)
		}
	}
	bar := newProgress(besideResult(c), "measure")
	o := convert.Options{Threads: c.Int("threads"), Progress: barOf(bar)}
	if err := calibrationOf(c, &o); err != nil {
		return err
	}
	o.Method = packed.GPTQ // as convert has it without --method
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	front, err := convert.Front(c.Context, source, o, filepath.Join(dir, "model"))
	bar.done()
	if err != nil {
		return err
	}
	return showBench(c, bench.NewSizes(filepath.Base(source), front), nil, printSizes)
}

// lossWidth is the length of the bar of the largest loss.
const lossWidth = 24

// printSizes prints a line for each file, in which the shares of the forms of a quantizer are one. The embedding and
// the head have columns of their own, with the last words of their names.
func printSizes(w io.Writer, s *bench.Sizes) {
	var quantizers []string
	most := 0.0
	for _, r := range slices.Concat(s.Chosen, s.Alone) {
		most = max(most, r.Divergence)
		if name, _, _ := strings.Cut(r.Form, " "); name != "" && !slices.Contains(quantizers, name) {
			quantizers = append(quantizers, name)
		}
	}
	head := []string{"form", "--size", "file", "bits", "divergence", "perplexity", "", "activations"}
	right := map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true}
	for _, t := range s.Chosen[0].Tables {
		words := strings.Split(strings.TrimSuffix(t.Name, ".weight"), ".")
		head = append(head, words[len(words)-1])
	}
	rows := [][]string{slices.Concat(head, quantizers)}
	for i := range quantizers {
		right[len(head)+i] = true
	}
	line := func(form string, r *bench.SizeRow) []string {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("█", int(math.Round(lossWidth*r.Divergence/most)))
		}
		return []string{form, "", size(r.Bytes), "", fmt.Sprintf("%.4f", r.Divergence), fmt.Sprintf("× %.3f", r.Ratio),
			bar, r.Activation}
	}
	for i := range s.Chosen {
		r := &s.Chosen[i]
		cells := line("for each tensor", r)
		cells[1], cells[3] = sizeFlag(r.Budget), fmt.Sprintf("%.2f", r.Bits)
		for _, t := range r.Tables {
			cells = append(cells, t.Form)
		}
		rows = append(rows, append(cells, shares(r, quantizers)...))
	}
	for i := range s.Alone {
		rows = append(rows, line(s.Alone[i].Form, &s.Alone[i]))
	}
	table(w, right, rows)
	fmt.Fprintf(w, "\nExpected %s. The file of a line:\n"+
		"lowpack convert CHECKPOINT -o FILE --calibrate TEXT --size SIZE\n", bench.Expectation(s.Method))
}

// sizeFlag writes a number of bytes as --size reads it.
func sizeFlag(n int64) string {
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(n) >= u.bytes {
			return strconv.FormatFloat(float64(n)/u.bytes, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// shares are those of the forms of each quantizer.
func shares(r *bench.SizeRow, quantizers []string) (cells []string) {
	for _, q := range quantizers {
		sum := 0.0
		for _, f := range r.Shares {
			if strings.HasPrefix(f.Form, q+" ") {
				sum += f.Share
			}
		}
		cell := ""
		if sum > 0 {
			cell = fmt.Sprintf("%.0f %%", 100*sum)
		}
		cells = append(cells, cell)
	}
	return cells
}
