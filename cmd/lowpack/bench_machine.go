package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/kernel"
)

// saveName is the flag that keeps choices.
const saveName = "save"

func benchMachineCommand() *cli.Command {
	return &cli.Command{
		Name:      "machine",
		Usage:     "measure how fast this machine reads and multiplies",
		UsageText: "lowpack bench machine [flags]",
		Description: `Two kinds of limits: a loop that reads and does nothing else, out of each level of the caches and out of memory, there the
fastest of several loops; and a loop that multiplies and adds registers and does nothing else, with each instruction set.

With --choices also what the kernels choose by, with one thread: how weights are loaded, and from how many tokens on each
other way to multiply is faster, by both ways forced, one after the other. --save keeps that for this CPU in the cache of
this user, where all commands look when they start, in place of what was measured on other CPUs. It changes speed and
nothing else; lowpack version names the file, and noise is not kept.

` + benchMethod + `

  lowpack bench machine
  lowpack bench machine --threads 0 --svg roofline.svg
  lowpack bench machine --save
  lowpack bench machine --json > limits.json`,
		Flags: append([]cli.Flag{benchTime(),
			&cli.BoolFlag{Name: "choices", Usage: "measure also what the kernels choose by, in a minute or two"},
			&cli.BoolFlag{Name: saveName, Usage: "measure that, and keep it for the commands of this user on this CPU"},
		}, benchFlags()...),
		Action: runBenchMachine,
	}
}

func runBenchMachine(c *cli.Context) error {
	if err := wantArgs(c, 0, ""); err != nil {
		return err
	}
	threads, err := intList(c, "threads")
	if err != nil {
		return err
	}
	path, err := choicesFile()
	if c.Bool(saveName) {
		if forced := os.Getenv(kernel.EnvISA); forced != "" {
			return usagef("--%s keeps choices for all instruction sets: unset %s=%s", saveName, kernel.EnvISA, forced)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", saveName, err)
		}
	}
	p := newCounter(besideResult(c), "bench", things("measurements"))
	r, err := bench.Machine(c.Context, benchMeter(c, p), threads)
	if (c.Bool("choices") || c.Bool(saveName)) && (err == nil || errors.Is(err, bench.ErrNoise)) {
		var failed error
		r.Choices, failed = bench.Choices(c.Context, benchMeter(c, p))
		err = cmp.Or(failed, err)
	}
	p.done()
	if c.Bool(saveName) && (err == nil || errors.Is(err, bench.ErrNoise)) {
		if err := saveChoices(path, r.Choices); err != nil {
			return err
		}
		note(c, "kept in "+path+": every command of this user goes by it; remove the file to return to the tables")
	}
	return showBench(c, r, err, printMachine)
}

func printMachine(w io.Writer, r *bench.MachineReport) {
	printHost(w, &r.Host)
	fmt.Fprintln(w)
	rows := [][]string{{"", "", "threads", "", "spread"}}
	for _, row := range r.Rows {
		where := row.Where
		if row.What == bench.Read {
			where += ", " + size(int64(row.Bytes))
		}
		if row.How != "" {
			where += " (" + row.How + ")"
		}
		rows = append(rows, []string{row.What, where, strconv.Itoa(row.Threads), machineRate(&row),
			spreadText(row.Seconds.Spread, row.Noise)})
	}
	table(w, map[int]bool{2: true, 3: true, 4: true}, rows)
	if r.Choices != nil {
		printThresholds(w, r.Choices)
	}
}

// printThresholds prints what kernels choose by.
func printThresholds(w io.Writer, r *bench.ChoicesReport) {
	if len(r.Tunings) > 0 {
		rows := [][]string{{"tuning", "one token, time", "spread", ""}}
		for _, t := range r.Tunings {
			chosen := ""
			if t.Chosen {
				chosen = "chosen"
			}
			rows = append(rows, []string{t.Name, bench.Digits(t.Time.Median), spreadText(t.Time.Spread, t.Noise),
				chosen})
		}
		fmt.Fprintln(w)
		table(w, map[int]bool{1: true, 2: true}, rows)
	}
	rows := [][]string{{"way", "set", "weights", "from tokens", "in use", "tokens: time over the usual way"}}
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		weights := t.Measured.Layout + " " + t.Measured.Alphabet
		if t.Measured.Group > 0 {
			weights += ", groups of " + strconv.Itoa(t.Measured.Group)
		}
		from := tokensText(t.Tokens)
		if t.Noise {
			from = "NOISE"
		}
		rows = append(rows, []string{string(t.Way), string(t.ISA), weights, from, tokensText(t.InForce),
			triesText(t.Points)})
	}
	fmt.Fprintln(w)
	table(w, map[int]bool{3: true, 4: true}, rows)
}

func tokensText(n int) string {
	if n == 0 {
		return "never"
	}
	return strconv.Itoa(n)
}

// triesText lists measurements by the number of tokens.
func triesText(points []bench.Try) string {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b bench.Try) int { return cmp.Compare(a.Tokens, b.Tokens) })
	var list []string
	for _, p := range points {
		list = append(list, fmt.Sprintf("%d: %.2f", p.Tokens, p.Time.Median))
	}
	return strings.Join(list, "  ")
}

func machineRate(row *bench.MachineRow) string {
	if row.What == bench.Read {
		return bench.Digits(row.Rate/1e9) + " GB/s"
	}
	return bench.Digits(row.Rate/1e9) + " GOPS"
}
