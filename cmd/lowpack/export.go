package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/onnx"
	"github.com/lowpack/lowpack/convert/export/openvino"
	"github.com/lowpack/lowpack/internal/printable"
)

// exportTarget is a format that packed files are exported in, one per file of package export.
type exportTarget struct {
	name   string
	export func(c *cli.Context, path, target string, p export.Progress) (*export.Summary, error)
}

var exportTargets = []exportTarget{
	{"gguf", func(c *cli.Context, path, target string, p export.Progress) (*export.Summary, error) {
		return export.GGUF(c.Context, path, target, export.GGUFOptions{
			Dialect: export.Dialect(c.String("dialect")), Force: c.Bool("force"), Progress: p,
			Planned: func(t export.Told) { tellOf(c, t) },
		})
	}},
	{"onnx", func(c *cli.Context, path, target string, p export.Progress) (*export.Summary, error) {
		return onnx.Export(c.Context, path, target, export.Arithmetic(c.String("arithmetic")), p)
	}},
	{"openvino", func(c *cli.Context, path, target string, p export.Progress) (*export.Summary, error) {
		a := export.Arithmetic(c.String("arithmetic"))
		if !c.IsSet("static") {
			return openvino.Export(c.Context, path, target, a, p)
		}
		return openvino.ExportStatic(c.Context, path, target, a, openvino.Static{
			Cache:   openvino.Cache(c.String("static")),
			Context: c.Int("context"),
			Prefill: c.Int("prefill"),
			Layers:  c.Int("layers"),
			Bits:    c.Int("bits"),
		}, p)
	}},
}

func exportNames() (names []string) {
	for _, t := range exportTargets {
		names = append(names, t.name)
	}
	return names
}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a packed file in the format of another runtime",
		ArgsUsage: "FILE",
		UsageText: "lowpack export FILE --to FORMAT -o PATH [flags]",
		Description: `The tokenizer and the chat template are included; golden outputs and digests of the packed file have no place in other formats.

gguf is for llama.cpp, ik_llama.cpp or bitnet.cpp. Weights stay exact: a block type is chosen that holds codes, zero points and scales,
F16 or F32 where none does.

onnx is a directory for onnxruntime and onnxruntime-genai, openvino one for OpenVINO and its GenAI. The exact arithmetic quantizes
activations in the graph as lowpack does, and adds integers, written as floats, without rounding; the plain one leaves activations floats.

--static is for NPUs: OpenVINO models of static shapes for one token and for pieces of prompts, cut into embedding, groups of layers and head.
They keep the KV cache as states, or take it as inputs, which OpenVINO's NPUW requires.

  lowpack export model.safetensors --to gguf -o model.gguf
  lowpack export model.safetensors --to gguf --dialect ik -o model.gguf
  lowpack export model.safetensors --to onnx -o model-onnx
  lowpack export model.safetensors --to openvino -o model-openvino
  lowpack export model.safetensors --to openvino --static states --context 2048 -o model-npu
  lowpack verify model.gguf --source model.safetensors`,
		Flags: []cli.Flag{
			oneOf(&cli.StringFlag{Name: "to", Usage: "the `FORMAT` to write: " + strings.Join(exportNames(), ", ")},
				exportNames()...),
			outputFlag("write `PATH`: a file for gguf, else a directory"),
			oneOf(&cli.StringFlag{Name: "dialect",
				Usage: "the `PROGRAM` that a GGUF is for: " + strings.Join(export.Dialects(), ", "),
				Value: string(export.LlamaCpp)}, export.Dialects()...),
			&cli.BoolFlag{Name: "force",
				Usage: "also write models that the other runtime loads but computes differently"},
			oneOf(&cli.StringFlag{Name: "arithmetic",
				Usage: "of quantized linear layers in onnx and openvino, `HOW` " +
					strings.Join(export.Arithmetics(), " or "),
				DefaultText: "exact where all matrices allow it, else plain"}, export.Arithmetics()...),
			oneOf(&cli.StringFlag{Name: "static",
				Usage: "write OpenVINO models of static shapes, with the KV cache as `CACHE`: " +
					strings.Join(openvino.Caches(), " or ")}, openvino.Caches()...),
			between(2, maxTokens, &cli.IntFlag{Name: "context", Usage: "context length of static models: `N` tokens",
				DefaultText: "1024, or what the model was made for"}),
			between(1, maxTokens, &cli.IntFlag{Name: "prefill", Usage: "static prefill of `N` tokens at once",
				DefaultText: "128"}),
			between(1, maxTokens, &cli.IntFlag{Name: "layers", Usage: "`N` layers in each static model",
				DefaultText: "16"}),
			between(2, 8, &cli.IntFlag{Name: "bits", Usage: "static weights of at least `N` bits: 2, 4 or 8",
				DefaultText: "4"}),
			jsonFlag(),
		},
		Action: runExport,
	}
}

func runExport(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	target := c.String("output")
	if c.String("to") == "" || target == "" {
		return usagef("export needs --to FORMAT and -o OUT")
	}
	for flag, formats := range map[string][]string{"force": {"gguf"}, "dialect": {"gguf"},
		"arithmetic": {"onnx", "openvino"}, "static": {"openvino"}} {
		if c.IsSet(flag) && !slices.Contains(formats, c.String("to")) {
			return usagef("--%s is about --to %s", flag, strings.Join(formats, " and "))
		}
	}
	for _, flag := range []string{"context", "prefill", "layers", "bits"} {
		if c.IsSet(flag) && !c.IsSet("static") {
			return usagef("--%s is about --static", flag)
		}
	}
	path, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	for _, t := range exportTargets {
		if t.name != c.String("to") {
			continue
		}
		bar := newProgress(besideResult(c), "export")
		s, err := t.export(c, path, target, bar.set)
		bar.done()
		if err != nil {
			return err
		}
		if t.name != "gguf" { // told before it was written
			tellOf(c, s.Told)
		}
		return printExport(c, target, s)
	}
	return nil // oneOf has refused other names
}

func printExport(c *cli.Context, target string, s *export.Summary) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, s)
	}
	return exportLine(besideResult(c), target, s)
}

// tellOf prints the remarks on an export; JSON has them in its result.
func tellOf(c *cli.Context, t export.Told) {
	if !c.Bool("json") {
		tell(c, t.Notes, t.Details)
	}
}

func exportLine(w io.Writer, target string, s *export.Summary) error {
	_, err := fmt.Fprintf(w, "%s: %d tensors, %s\n", printable.Line(target), s.Tensors, size(s.Bytes))
	return err
}
