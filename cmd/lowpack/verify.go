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
logits and tokens), source (it is what the checkpoint says). Exit code 0 only if every check passed. A signature is
checked first; nothing else is checked of a file without an accepted one. FILE may also be oci://HOST/NAME[:TAG] in a
registry, which is downloaded into the user's cache with its signature.

  lowpack verify model.safetensors
  lowpack verify model.safetensors --source MODEL_DIR
  lowpack verify model.safetensors --level digest --report junit:report.xml
  lowpack verify model.safetensors --key PUBLIC.pem       # of lowpack sign, model.safetensors.sig
  lowpack verify model.gguf --source model.safetensors    # of lowpack export: weights and tokenizer are those of the packed file
  lowpack verify model-onnx --source model.safetensors`,
		Flags: append([]cli.Flag{
			oneOf(&cli.StringFlag{Name: "level", Usage: "stop after this `LEVEL`",
				DefaultText: "all of them, source with --source"}, words(verify.Levels())...),
			inputFlag("source", "compare with the checkpoint `PATH`"),
			inputFlag("provenance", "compare with the in-toto statement in `FILE`, as convert --provenance writes it"),
			reportFlag(),
			besideFlag("dump-golden",
				"write the golden outputs to `FILE.arrow`, an Arrow IPC stream, and check nothing"),
			deviceFlag("compute the logits on this `DEVICE`"),
			deviceLayersFlag(),
			threadsFlag("check"),
			plainHTTPFlag(),
			jsonFlag(),
			input{&cli.StringFlag{Name: "signature", Usage: "read the signature of FILE from the file `FILE.sig`",
				DefaultText: "FILE.sig", TakesFile: true}},
		}, signatureFlags()...),
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
	path, err := packedAt(c, c.Args().First())
	if err != nil {
		return err
	}
	signed, err := checkSignature(c, path)
	if err != nil {
		return err
	}
	for _, e := range exported {
		if e.is(path) {
			return verifyExport(c, path, e.kind, signed, e.compare)
		}
	}
	if signed != nil && signed.fault != nil {
		return conclude(c, signed.refused(path), nil)
	}
	if target := c.String("dump-golden"); target != "" {
		return dumpGolden(path, target)
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
	bar := newProgress(besideResult(c), "verify")
	o := verify.Options{
		Level:        verify.Level(c.String("level")),
		Source:       source,
		Provenance:   statement,
		Statement:    c.String("provenance"),
		Threads:      c.Int("threads"),
		Device:       c.String("device"),
		DeviceLayers: c.Int("device-layers"),
		Progress:     func(what string, done, total int64) { bar.setIn(verifyUnit(what), done, total, what) },
	}
	if err := signed.statement(&o); err != nil {
		return err
	}
	r, err := verify.Run(c.Context, path, o)
	bar.done()
	if r == nil {
		return err
	}
	signed.report(r)
	return conclude(c, r, err)
}

// conclude prints a report, writes it where --report asks for it, and returns an error unless every check passed.
func conclude(c *cli.Context, r *verify.Report, err error) error {
	err = errors.Join(err, showReport(c, r))
	if kind, file := reportFlag().cut(c.String("report")); file != "" {
		err = errors.Join(err, writeFile(file, func(w io.Writer) error { return writeReport(w, kind, r) }))
	}
	if err == nil && !r.OK {
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
	for _, flag := range []string{"key", "certificate"} {
		if c.String("level") == string(verify.File) && c.IsSet(flag) {
			return usagef("--%s cannot be combined with --level file: a signature is for all bytes", flag)
		}
	}
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

// exported are the outputs of lowpack export, and what compares them with a packed file.
var exported = []struct {
	is      func(path string) bool
	kind    string
	compare func(ctx context.Context, path, source string) (*export.Verified, error)
}{
	{checkpoint.IsGGUF, "a GGUF", export.VerifyGGUF},
	{onnx.Is, "an ONNX directory", onnx.Verify},
	{openvino.Is, "an OpenVINO directory", openvino.Verify},
}

// verifyExport compares the output of lowpack export with the packed file that it was made from.
func verifyExport(c *cli.Context, path, kind string, signed *signature, compare func(ctx context.Context,
	path, source string) (*export.Verified, error)) error {
	if signed != nil && signed.fault != nil {
		return signed.fault
	}
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
