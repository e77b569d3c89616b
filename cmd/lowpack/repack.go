package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert"
)

func repackCommand() *cli.Command {
	return &cli.Command{
		Name:      "repack",
		Usage:     "change the layout of a packed file, without loss",
		ArgsUsage: "FILE",
		UsageText: "lowpack repack FILE --layout NAME -o FILE",
		Description: `Codes, scales and golden outputs stay what they are; the digests of the codes prove it. The result is the file that
convert would have written for the other layout.

  lowpack repack model.safetensors --layout vnni4i-64 -o wide.safetensors`,
		Flags: []cli.Flag{
			oneOf(&cli.StringFlag{Name: "layout", Usage: "the layout to write: a `NAME` that lowpack layouts lists"},
				layoutNames()...),
			paramFlag(),
			outputFlag("write the packed `FILE`"),
			threadsFlag("pack"),
			jsonFlag(),
		},
		Action: runRepack,
	}
}

func runRepack(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	if c.String("layout") == "" || c.String("output") == "" {
		return usagef("repack needs --layout NAME and -o FILE")
	}
	params, err := layoutParams(c)
	if err != nil {
		return err
	}
	path, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	bar := newProgress(besideResult(c), "repack")
	s, err := convert.Repack(c.Context, path, c.String("output"), convert.RepackOptions{
		Layout: c.String("layout"), Params: params, Threads: c.Int("threads"), Progress: barOf(bar),
	})
	bar.done()
	return reportSummary(c, c.String("output"), s, err)
}

func unpackCommand() *cli.Command {
	forms := words(convert.Forms())
	return &cli.Command{
		Name:      "unpack",
		Usage:     "turn a packed file back into a checkpoint",
		ArgsUsage: "FILE",
		UsageText: "lowpack unpack FILE -o DIR [--form FORM]",
		Description: `The directory is in Hugging Face layout and converts again to the same codes.

  lowpack unpack model.safetensors -o model
  lowpack unpack model.safetensors --form u8 -o model-packed`,
		Flags: []cli.Flag{
			outputFlag("write the directory `DIR`; it must not exist"),
			oneOf(&cli.StringFlag{Name: "form", Value: forms[0],
				Usage: "`FORM` of the quantized weights: " + strings.Join(forms, ", ") +
					" (u8: four ternary codes per byte, BitNet)"}, forms...),
			threadsFlag("unpack"),
			jsonFlag(),
		},
		Action: runUnpack,
	}
}

func runUnpack(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	if c.String("output") == "" {
		return usagef("unpack needs -o DIR")
	}
	path, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	bar := newProgress(besideResult(c), "unpack")
	s, err := convert.Unpack(c.Context, path, c.String("output"), convert.UnpackOptions{
		Form: convert.Form(c.String("form")), Threads: c.Int("threads"), Progress: barOf(bar),
	})
	bar.done()
	if err == nil && s.Rounded > 0 {
		note(c, fmt.Sprintf("the weights of %d tensors are rounded to BF16, which does not hold code times scale; "+
			"--form f32 keeps them", s.Rounded))
	}
	return reportSummary(c, c.String("output"), s, err)
}

func mergeCommand() *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "join the parts of a conversion into one packed file",
		ArgsUsage: "PART",
		UsageText: "lowpack merge PART... -o FILE",
		Description: `The parts come from lowpack convert --part, with the same checkpoint and flags. The result is the file that a
conversion in one piece writes, byte for byte.

  lowpack convert MODEL_DIR --part 1/2 -o part1
  lowpack convert MODEL_DIR --part 2/2 -o part2
  lowpack merge part1 part2 -o model.safetensors`,
		Flags: []cli.Flag{
			outputFlag("write the packed `FILE`"),
			jsonFlag(),
		},
		Action: runMerge,
	}
}

func runMerge(c *cli.Context) error {
	if c.NArg() == 0 || c.String("output") == "" {
		return usagef("merge needs the PARTs and -o FILE; see `lowpack merge --help`")
	}
	bar := newProgress(besideResult(c), "merge")
	s, err := convert.Merge(c.Context, c.Args().Slice(), c.String("output"), convert.MergeOptions{Progress: barOf(bar)})
	bar.done()
	return reportSummary(c, c.String("output"), s, err)
}

// barOf returns a progress callback of package convert that updates a bar.
func barOf(p *progress) convert.Progress {
	return func(tensor string, done, total int64) {
		switch tensor {
		case convert.GoldenPhase, convert.FeedbackPhase:
			p.setIn(weightsDone, done, total, tensor)
		case convert.CalibrationPhase, convert.SelfTextPhase:
			p.setIn(things("tokens"), done, total, tensor)
		case convert.SensitivityPhase:
			p.setIn(things("groups of weights"), done, total, tensor)
		default:
			p.set(done, total, tensor)
		}
	}
}

// reportSummary prints the summary of a conversion.
func reportSummary(c *cli.Context, target string, s *convert.Summary, err error) error {
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, s)
	}
	printSummary(besideResult(c), target, s)
	return nil
}
