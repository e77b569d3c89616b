package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

func benchRecommendCommand() *cli.Command {
	return &cli.Command{
		Name:      "recommend",
		Usage:     "measure which layout and output head suit a checkpoint on this machine, or what sizes of it cost",
		ArgsUsage: "CHECKPOINT",
		UsageText: "lowpack bench recommend CHECKPOINT [flags]",
		Description: `The linear layers of the model are multiplied in every layout that holds their codes, and its output head in every form,
by one token (decode) and by 128 (prefill), with random codes that come from memory. Sizes are those of what a pass
reads. Attention and all else between the matrices is the same for all and left out. Stars mark what convert --layout auto
and --head auto take: the fastest for one token, among heads that give exact logits; where others are as fast within
--max-spread, the smallest.
With --calibrate, the model is measured on a text instead, for files from the smallest to the largest size that
convert --size chooses forms for: the number for --size; the file; bits per weight of the linear layers; KL divergence
from the floats, in nats per token, and perplexity, as expected with error feedback (--method gptq of convert); the forms
of the embedding and of the output head. It takes minutes, and room for a copy of the model in the folder for temporary
files (TMPDIR).

  lowpack bench recommend MODEL_DIR
  lowpack bench recommend MODEL_DIR --quant int4 --scale group:32 --threads 1
  lowpack bench recommend MODEL_DIR --calibrate TEXT --svg sizes.svg`,
		Flags: []cli.Flag{
			quantFlag(), scaleFlag(),
			threadsFlag("compute"),
			benchTime(), maxSpreadFlag(),
			inputFlag("calibrate", "measure what sizes cost on the texts of `PATH`, as convert --calibrate "+
				"reads them, or on self, a text that the model writes"),
			besideFlag("svg", "draw what sizes cost to `FILE`"),
			jsonFlag(),
		},
		Action: runBenchRecommend,
	}
}

func runBenchRecommend(c *cli.Context) error {
	if err := wantArgs(c, 1, "CHECKPOINT"); err != nil {
		return err
	}
	source, err := checkpointOf(c, c.Args().First())
	if err != nil {
		return err
	}
	switch {
	case c.String("calibrate") != "":
		return recommendSizes(c, source)
	case c.String("svg") != "":
		return usagef("--svg draws what sizes cost on a text: name one with --calibrate TEXT")
	}
	recipe, err := recipeOf(c)
	if err != nil {
		return err
	}
	recipe.AllowLossy = true // no file is written
	plan, err := convert.NewPlan(c.Context, source, convert.Options{Recipe: *recipe})
	if err != nil {
		return err
	}
	defer plan.Close()
	p := newCounter(besideResult(c), "bench", things("choices"))
	r, err := recommend(c.Context, plan, benchMeter(c, p), c.Int("threads"), recommendTokens)
	p.done()
	if r == nil {
		return err
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, r); err != nil {
			return err
		}
	} else {
		printRecommendation(c.App.Writer, r, c.Float64("max-spread")/100)
	}
	if errors.Is(err, bench.ErrNoise) {
		return fmt.Errorf("%w (--max-spread)", err)
	}
	return err
}

// recommendTokens are the measured passes: decode, and prefill.
var recommendTokens = []int{1, 128}

// recommend measures alternatives for the tensors of a plan.
func recommend(ctx context.Context, plan *convert.Plan, m bench.Meter, threads int,
	tokens []int) (*bench.Recommendation, error) {
	heads, err := headForms(plan)
	if err != nil {
		return nil, err
	}
	return bench.Recommend(ctx, bench.RecommendOptions{Meter: m, Body: plan.Body(), Heads: heads, Tokens: tokens,
		Threads: threads})
}

// headForms returns the forms of the head that convert can make from floats; nil if there are none.
func headForms(plan *convert.Plan) ([]bench.HeadForm, error) {
	shape, dtype, ok := plan.FloatHead()
	if !ok {
		return nil, nil
	}
	t, err := tensor.ParseType(dtype)
	if err != nil {
		return nil, err
	}
	codes := func(name packed.Head, vectors int, a pack.Alphabet, group int) bench.HeadForm {
		return bench.HeadForm{Name: string(name), Layout: convert.LayoutFor(a.Name), Vectors: vectors,
			Matrices: convert.Matrices{Shape: shape, Alphabet: a.Name, Group: group, Count: 1}}
	}
	return []bench.HeadForm{
		{Name: string(packed.HeadBF16), DType: t, Matrices: convert.Matrices{Shape: shape, Count: 1}},
		codes(packed.HeadScreen, 2, pack.Int8, 0),
		codes(packed.HeadInt8, 1, pack.Int8, 0),
		codes(packed.HeadInt6, 1, pack.Int6, 64),
		codes(packed.HeadInt4, 1, pack.Int4, 32),
	}, nil
}

// exactHeads returns the first two forms of the head: their logits equal the checkpoint's.
func exactHeads[T bench.HeadForm | bench.RecommendRow](heads []T) []T {
	return heads[:min(2, len(heads))]
}

func printRecommendation(w io.Writer, r *bench.Recommendation, spread float64) {
	printHost(w, &r.Host)
	fmt.Fprintf(w, "%s\n\n", bench.Threads(r.Threads))
	rows := [][]string{{"", "", "reads", "kernels", "1 token", "spread", "128 tokens", "spread"}}
	layout, head := bench.Fastest(r.Layouts, 0, spread), bench.Fastest(exactHeads(r.Heads), 0, spread)
	add := func(what string, list []bench.RecommendRow, best *bench.RecommendRow) {
		for i := range list {
			row := &list[i]
			if row.Refused != "" {
				continue
			}
			star := ""
			if best != nil && row.Name == best.Name {
				star = "*"
			}
			line := []string{what + " " + row.Name, star, size(row.Bytes), strings.Join(row.Kernels, " ")}
			for _, s := range row.Seconds {
				line = append(line, bench.Digits(1e3*s.Median)+" ms", spreadText(s.Spread, s.Spread > spread))
			}
			rows = append(rows, line)
		}
	}
	add("layout", r.Layouts, layout)
	add("head", r.Heads, head)
	table(w, map[int]bool{2: true, 4: true, 5: true, 6: true, 7: true}, rows)
	if layout == nil {
		return
	}
	perToken, prompt, line := layout.Seconds[0].Median, layout.Seconds[1].Median, "--layout "+layout.Name
	if head != nil {
		perToken, line = perToken+head.Seconds[0].Median, line+" --head "+head.Name
	}
	fmt.Fprintf(w, "\nRecommended: %s. The matrices alone would allow %s tokens/s of decode and %s of prefill.\n", line,
		bench.Digits(1/perToken), bench.Digits(float64(r.Tokens[1])/prompt))
}
