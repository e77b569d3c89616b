package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
)

func benchMachineCommand() *cli.Command {
	return &cli.Command{
		Name:      "machine",
		Usage:     "measure how fast this machine reads and multiplies",
		UsageText: "lowpack bench machine [flags]",
		Description: `Two kinds of limits: a loop that reads and does nothing else, out of each level of the caches and out of memory, there the
fastest of several loops; and a loop that multiplies and adds registers and does nothing else, with each instruction set.

` + benchMethod + `

  lowpack bench machine
  lowpack bench machine --threads 0 --svg roofline.svg
  lowpack bench machine --json > limits.json`,
		Flags:  append([]cli.Flag{benchTime()}, benchFlags()...),
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
	p := newCounter(besideResult(c), "bench", things("measurements"))
	r, err := bench.Machine(c.Context, benchMeter(c, p), threads)
	p.done()
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
}

func machineRate(row *bench.MachineRow) string {
	if row.What == bench.Read {
		return bench.Digits(row.Rate/1e9) + " GB/s"
	}
	return bench.Digits(row.Rate/1e9) + " GOPS"
}
