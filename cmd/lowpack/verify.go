package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/verify"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "prove that a packed file is what it says",
		ArgsUsage: "FILE",
		UsageText: "lowpack verify FILE [--source CHECKPOINT] [flags]",
		Description: `Levels, each with all before it: file (well-formed), digest (the bytes that convert wrote), codes (they decode to
legal weights), kernel (every kernel of this CPU gives the golden integers), logits (the model gives the golden
logits and tokens), source (it is what the checkpoint says). Exit code 0 only if every check passed.

  lowpack verify model.safetensors
  lowpack verify model.safetensors --source MODEL_DIR
  lowpack verify model.safetensors --level digest --report junit:report.xml`,
		Flags: []cli.Flag{
			oneOf(&cli.StringFlag{Name: "level", Usage: "stop after this `LEVEL`", DefaultText: "all of them, source with --source"}, words(verify.Levels())...),
			&cli.StringFlag{Name: "source", Usage: "compare with the checkpoint `PATH`", TakesFile: true},
			&cli.StringFlag{Name: "provenance", Usage: "compare with the in-toto statement in `FILE`, as convert --provenance writes it", TakesFile: true},
			like(&cli.StringFlag{Name: "report", Usage: "also write the report, as junit:`FILE` or json:FILE"}, "junit:", "json:"),
			&cli.StringFlag{Name: "dump-golden", Usage: "write the golden outputs to `FILE.arrow`, an Arrow IPC stream, and check nothing", TakesFile: true},
			threadsFlag("check"),
			jsonFlag(),
		},
		Action: runVerify,
	}
}

func runVerify(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	path := c.Args().First()
	if target := c.String("dump-golden"); target != "" {
		return dumpGolden(path, target)
	}
	kind, file, err := reportTo(c.String("report"))
	if err != nil {
		return err
	}
	statement, err := readStatement(c.String("provenance"))
	if err != nil {
		return err
	}
	source := c.String("source")
	if source != "" {
		if source, err = checkpointOf(c, source); err != nil {
			return err
		}
	}
	bar := newProgress(c.App.ErrWriter, "verify")
	report, err := verify.Run(c.Context, path, verify.Options{
		Level: verify.Level(c.String("level")), Source: source, Provenance: statement, Threads: c.Int("threads"),
		Progress: func(what string, done, total int64) { bar.set(done, total, what) },
	})
	bar.done()
	if err != nil {
		return err
	}
	if file != "" {
		if err := writeFile(file, func(w io.Writer) error { return writeReport(w, kind, report) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, report)
	} else {
		err = report.Text(c.App.Writer)
	}
	if err == nil && !report.OK {
		err = errReported
	}
	return err
}

// reportTo splits KIND:FILE.
func reportTo(text string) (kind, file string, err error) {
	if text == "" {
		return "", "", nil
	}
	kind, file, _ = strings.Cut(text, ":")
	if (kind != "junit" && kind != "json") || file == "" {
		return "", "", usagef("--report %q is not junit:FILE or json:FILE", text)
	}
	return kind, file, nil
}

func writeReport(w io.Writer, kind string, r *verify.Report) error {
	if kind == "json" {
		return printJSON(w, r)
	}
	return r.JUnit(w)
}

// dumpGolden writes the golden outputs of a packed file as a file of their own.
func dumpGolden(path, target string) error {
	return writeFile(target, func(w io.Writer) error { return verify.DumpGolden(path, w) })
}
