package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/onnx"
	"github.com/lowpack/lowpack/convert/export/openvino"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/internal/printable"
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
  lowpack verify model.safetensors --level digest --report junit:report.xml
  lowpack verify model.gguf --source model.safetensors    # of lowpack export: weights and tokenizer are those of the packed file
  lowpack verify model-onnx --source model.safetensors`,
		Flags: []cli.Flag{
			oneOf(&cli.StringFlag{Name: "level", Usage: "stop after this `LEVEL`",
				DefaultText: "all of them, source with --source"}, words(verify.Levels())...),
			inputFlag("source", "compare with the checkpoint `PATH`"),
			inputFlag("provenance", "compare with the in-toto statement in `FILE`, as convert --provenance writes it"),
			reportFlag(),
			besideFlag("dump-golden",
				"write the golden outputs to `FILE.arrow`, an Arrow IPC stream, and check nothing"),
			deviceFlag("compute the logits on this `DEVICE`"),
			threadsFlag("check"),
			jsonFlag(),
		},
		Action: runVerify,
	}
}

// reportJSON and reportJUnit begin the values of --report.
const (
	reportJUnit = "junit:"
	reportJSON  = "json:"
)

// reportFlag is --report of verify.
func reportFlag() kindOutput {
	return kindFlag("report", "also write the report, as junit:`FILE` or json:FILE", reportJUnit, reportJSON)
}

func runVerify(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	if err := checkLevel(c); err != nil {
		return err
	}
	path, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	switch {
	case checkpoint.IsGGUF(path):
		return verifyExport(c, path, "a GGUF", export.VerifyGGUF)
	case onnx.Is(path):
		return verifyExport(c, path, "an ONNX directory", onnx.Verify)
	case openvino.Is(path):
		return verifyExport(c, path, "an OpenVINO directory", openvino.Verify)
	}
	if target := c.String("dump-golden"); target != "" {
		return dumpGolden(path, target)
	}
	kind, file := reportFlag().cut(c.String("report"))
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
	bar := newProgress(besideResult(c), "verify")
	report, err := verify.Run(c.Context, path, verify.Options{
		Level:      verify.Level(c.String("level")),
		Source:     source,
		Provenance: statement,
		Statement:  c.String("provenance"),
		Threads:    c.Int("threads"),
		Device:     c.String("device"),
		Progress:   func(what string, done, total int64) { bar.setIn(verifyUnit(what), done, total, what) },
	})
	bar.done()
	if report == nil {
		return err
	}
	err = errors.Join(err, showReport(c, report))
	if file != "" {
		err = errors.Join(err, writeFile(file, func(w io.Writer) error { return writeReport(w, kind, report) }))
	}
	if err == nil && !report.OK {
		err = errReported
	}
	return err
}

func showReport(c *cli.Context, r *verify.Report) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, r)
	}
	told := *r
	told.Notes = shown(c, r.Notes, r.Details)
	var text bytes.Buffer
	if err := told.Text(&text); err != nil {
		return err
	}
	return paintReport(c.App.Writer, text.String())
}

// verifyUnit returns the unit of progress in a phase of verification.
func verifyUnit(phase string) unit {
	switch {
	case phase == verify.ReferencePhase:
		return weightsDone
	case strings.HasPrefix(phase, string(verify.Logits)):
		return things("checks")
	}
	return size
}

// checkLevel refuses evidence that the level does not use, and a level without its evidence.
func checkLevel(c *cli.Context) error {
	switch level := verify.Level(c.String("level")); {
	case level == verify.File && c.IsSet("provenance"):
		return usagef("--provenance cannot be combined with --level %s, which does not look at it", level)
	case level != "" && level != verify.Source && c.IsSet("source"):
		return usagef("--source cannot be combined with --level %s, which does not look at it", level)
	case level == verify.Source && !c.IsSet("source"):
		return usagef("--level %s needs --source CHECKPOINT", level)
	}
	return nil
}

func writeReport(w io.Writer, kind string, r *verify.Report) error {
	if kind == reportJSON {
		return printJSON(w, r)
	}
	return r.JUnit(w)
}

// dumpGolden writes the golden outputs of a packed file to a separate file.
func dumpGolden(path, target string) error {
	return writeFile(target, func(w io.Writer) error { return verify.DumpGolden(path, w) })
}

// verifyExport compares the output of lowpack export with the packed file that it was made from.
func verifyExport(c *cli.Context, path, kind string, compare func(ctx context.Context,
	path, source string) (*export.Verified, error)) error {
	source := c.String("source")
	for _, flag := range []string{"level", "provenance", "report", "dump-golden"} {
		if c.IsSet(flag) {
			return usagef("--%s is about packed files; %s is compared with its packed file, by --source FILE",
				flag, kind)
		}
	}
	if source == "" {
		foreign := ""
		if checkpoint.IsGGUF(path) { // the only one that convert reads
			foreign = fmt.Sprintf(". What others made is converted, and the packed file verified: lowpack convert %s "+
				"-o FILE; lowpack verify FILE --source %[1]s", path)
		}
		return usagef("verify %s needs --source FILE, the packed file that it was made from: %s has neither golden "+
			"outputs nor digests%s", path, kind, foreign)
	}
	source, err := packedPath(source)
	if err != nil {
		return err
	}
	v, err := compare(c.Context, path, source)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, v)
	}
	_, err = fmt.Fprintf(c.App.Writer,
		"not in %s, so not checked: %s\nPASS  %s: %d weights in %d tensors are those of %s\n",
		kind, strings.Join(v.Absent, ", "), printable.Line(path), v.Weights, v.Tensors, printable.Line(source))
	return err
}
