package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/printable"
)

func benchReportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "measure this machine beside other runtimes, for a table",
		UsageText: "lowpack bench report -o FILE.json [flags]",
		Description: `Models of published shapes with random weights are made in --work, and each work (prefill, decode, decode of several
sequences) is measured in every form, one turn after another, in several rounds: of lowpack, and of the runtimes that
--runtimes has. Every turn measures the limits of the machine, too, and is written to FILE, so that the same command goes
on where an earlier one was interrupted. A share of the processors that other programs took is noted in FILE; leave the
machine to this one.

--runtimes DIR has folders ik_llama.cpp, llama.cpp and openvino (any may be missing), each with two programs and a file
version with their revision: packaging/runtimes in the source builds llama-batched-bench and llama-quantize for this
CPU, packaging/openvino/install installs OpenVINO. lowpack bench chart FILE prints the table.

  lowpack bench report -o my-cpu.json
  lowpack bench report -o my-cpu.json --runtimes runtimes --name "Ryzen 9 7950X"
  lowpack bench report -o trial.json --mini --rounds 1
  lowpack bench chart my-cpu.json`,
		Flags: []cli.Flag{
			outputFlag("write the turns to the JSON `FILE`, which may have some of them"),
			inputFlag("runtimes", "measure the other runtimes in `DIR`, too"),
			output{&cli.StringFlag{Name: "work", Value: "lowpack-bench", TakesFile: true,
				Usage: "make models in `DIR` (16 GB), and find them there the next time"}},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the machine in tables", DefaultText: "that of the CPU"},
			between(1, 100, &cli.IntFlag{Name: "rounds", Value: 3, Usage: "measure everything `N` times"}),
			&cli.DurationFlag{Name: "time-limit", Value: time.Hour,
				Usage: "begin no turn after this `DURATION`; the same command goes on"},
			threadsFlag("compute"),
			&cli.BoolFlag{Name: "mini", Usage: "tiny models, to see in seconds that all of it works here"},
		},
		Action: runBenchReport,
	}
}

func runBenchReport(c *cli.Context) error {
	if err := wantArgs(c, 0, ""); err != nil {
		return err
	}
	file := c.String("output")
	if file == "" {
		return usagef("bench report needs -o FILE.json")
	}
	limit, cancel := context.WithTimeout(c.Context, c.Duration("time-limit"))
	defer cancel()
	peers, err := findPeers(c.String("runtimes"))
	if err != nil {
		return err
	}
	r, err := resumeReport(file, newReport(c, peers))
	if err != nil {
		return err
	}
	roofs := bench.NewRoofs(&autoMeter, r.Threads)
	defer roofs.Close()
	w := &workshop{context: c, folder: c.String("work"), mini: r.Mini, peers: peers, roofs: roofs}
	runners, err := w.runners()
	if err != nil {
		return err
	}
	p := newCounter(besideResult(c), "bench", things("turns"))
	m := bench.Reporter{Runners: runners, More: func() bool { return limit.Err() == nil },
		Save:     func(r *bench.Report) error { return saveReport(file, r) },
		Progress: func(done, total int, at string) { p.set(int64(done), int64(total), at) }}
	err = m.Run(c.Context, r)
	p.done()
	if err != nil {
		return err
	}
	if n := len(r.Missing()); n > 0 {
		return fmt.Errorf("%s: %d turns of %d are measured: the same command goes on", printable.Line(file),
			len(r.Samples), len(r.Samples)+n)
	}
	if r.Busy {
		fmt.Fprintln(c.App.ErrWriter, "other programs took part of the processors: the figures are noted as such")
	}
	return nil
}

// newReport is the plan of a measurement.
func newReport(c *cli.Context, peers []peer) *bench.Report {
	host := bench.ThisHost()
	r := &bench.Report{Schema: bench.ReportSchema, Host: host, Name: c.String("name"), Revision: revision(),
		Date: time.Now().UTC().Format(time.DateOnly), Mini: c.Bool("mini"), Threads: c.Int("threads"),
		Rounds: c.Int("rounds")}
	r.Threads = cmp.Or(r.Threads, runtime.GOMAXPROCS(0))
	r.Name = cmp.Or(r.Name, host.CPU, host.Platform)
	for _, m := range benchModels(r.Mini) {
		r.Works = append(r.Works, m.works()...)
		for _, f := range m.available(peers) {
			r.Forms = append(r.Forms, bench.Form{Model: m.name, Runtime: f.runtime, Version: f.version,
				Weights: f.weights, Head: f.head})
		}
	}
	return r
}

// resumeReport returns the plan with the turns that a file already has.
func resumeReport(file string, plan *bench.Report) (*bench.Report, error) {
	r, err := readReport(file)
	if errors.Is(err, fs.ErrNotExist) {
		return plan, nil
	}
	if err == nil {
		err = filerr.Named(file, r.Same(plan))
	}
	if err != nil {
		return nil, err
	}
	r.Rounds = max(r.Rounds, plan.Rounds)
	return r, nil
}

func readReport(file string) (*bench.Report, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	text, err := readSmall(file, 1<<22)
	if err != nil {
		return nil, err
	}
	r, err := bench.ReadReport(text)
	return r, filerr.Named(file, err)
}

func saveReport(file string, r *bench.Report) error {
	return writeFile(file, func(w io.Writer) error { return printJSON(w, r) })
}
