package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/pack"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "turn a checkpoint into a packed file",
		ArgsUsage: "CHECKPOINT",
		UsageText: "lowpack convert CHECKPOINT -o FILE [flags]",
		Description: `CHECKPOINT is a model directory in Hugging Face layout, a download-cache snapshot, a bare safetensors file, a GGUF of
llama.cpp (the first of its parts), or ORG/NAME of a model on the hub (see lowpack pull).
The packed file appears whole or not at all, and is the same byte for byte wherever and with however many threads it is
made. Notes are about what you may want to change; --verbose adds the layout that is taken without --layout, tensors
that are left out because others stand for them, and bytes that the tokenizer has no token for.

A recipe (--recipe) has rules; the first whose pattern matches the name of a tensor applies to it. The embedding and the
output head are quantized by rules that have their names alone, without a pattern. A rule that has no effect is refused,
as is one whose layout cannot have a matrix that matches, and one that keeps what --head quantizes:
  rules:
    - {match: '*down_proj*', quant: int2, scale: 'group:64', layout: vnni4i-64}
    - {match: '*', keep: true}

  lowpack convert MODEL_DIR --layout vnni4i -o model.safetensors
  lowpack convert MODEL_DIR --dry-run                 # what would be done, tensor by tensor
  lowpack convert MODEL_DIR --head int8 -o m.safetensors
  lowpack convert MODEL_DIR --quant int4 --scale group:32 --calibrate text.txt --allow-lossy -o int4.safetensors
  lowpack convert MODEL_DIR --size 1.2GB --calibrate text.txt -o best.safetensors --report best.html
  lowpack convert layer.safetensors --include '*up*' --quant absmean --allow-lossy -o up.safetensors
  lowpack convert MODEL_DIR --part 3/8 -o part3       # one of eight, for lowpack merge`,
		Flags:  convertFlags(),
		Action: runConvert,
	}
}

func convertFlags() []cli.Flag {
	flags := []cli.Flag{
		outputFlag("write the packed `FILE`"),
		oneOf(&cli.StringFlag{Name: "layout", DefaultText: convert.DefaultLayout + "; vnni4 with --quant int8, " +
			"vnni4p with int3, int5 and int6",
			Usage: "weight layout `NAME` (see lowpack layouts), or auto: the fastest on this machine (see lowpack " +
				"bench recommend)"}, append(layoutNames(), auto)...),
		paramFlag(),
		quantFlag(),
		scaleFlag(),
		oneOf(&cli.StringFlag{Name: "activation", Value: convert.ActivationAuto,
			Usage: "codes and scales of activations, `KIND` auto (int8; a scale per token for models trained for few " +
				"bits, which have them; else per group of 32 columns, or of 64 where layers have groups, all of 64 " +
				"columns or more; token16 where forms are chosen for a size, and 8 bits would cost more than the " +
				"weights), token or group:N (int8), token16 or group16:N (16 bits: more exact, for 8-bit weights; " +
				"multiplied as two planes of int8)"},
			convert.Activations()...),
		oneOf(&cli.StringFlag{Name: "head", Value: string(packed.HeadBF16),
			Usage: "output head, `FORM` bf16 (as in the checkpoint, whatever its type), int8 (a scale per row; " +
				"perplexity of the bundled model +0.03 %), int6 (a scale per group of 64 columns; +0.2 % " +
				"there, +0.6 % with SmolLM2-135M), int4 (a scale per group of 32 columns; +1.1 % and " +
				"+10.1 %) or screen (as in the checkpoint, with int8 rows that find the largest logits, " +
				"which are then exact), or auto (bf16 or screen, the faster on this machine); with --size " +
				"and --min-quality one is chosen unless you name it"},
			append(words(packed.Heads()), auto)...),
		inputFlag("calibrate",
			"choose the codes of "+strings.Join(quantize.Calibrating(), ", ")+" for what the linear "+
				"layers and the output head multiply in the texts of `PATH`, of which up to 16384 tokens "+
				"(mean-square: 8192), spread over all of them, are computed with the floats: a file in UTF-8 "+
				"(- is standard input); "+
				"a file .jsonl with a text or the messages of a chat on each line, as {\"text\": \"...\"} or "+
				"{\"messages\": [...]}; a file .parquet with a column of either; a folder of files .txt, .md, "+
				".jsonl and .parquet; or self, a text that the model writes itself (./self is a file of this name)"),
		oneOf(&cli.StringFlag{Name: "method", Value: string(packed.GPTQ),
			Usage: "how --calibrate chooses, `NAME` gptq (scales, and codes by error feedback) or mean-square " +
				"(scales alone: faster, and worse)"}, words(packed.Methods())...),
		inputFlag("recipe", "YAML `FILE` with rules by tensor name"),
		&cli.StringSliceFlag{Name: "include", Action: checkPatterns,
			Usage: "quantize only tensors that match this `PATTERN`; may be repeated"},
		&cli.BoolFlag{Name: "allow-lossy", Usage: "quantize floats that nothing declares to be low-bit"},
		oneOf(&cli.StringFlag{Name: "golden", Value: string(packed.GoldenFull),
			Usage: "golden outputs to record, `MODE` none, kernel or full"},
			words(packed.GoldenModes())...),
		threadsFlag("convert"),
		&cli.BoolFlag{Name: "resume",
			Usage: "resume an interrupted conversion, and keep partial state on interruption"},
		&cli.StringFlag{Name: "part", Usage: "write only part `I/N` of the packed file, for lowpack merge"},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan and write nothing"},
	}
	return slices.Concat(flags, budgetFlags(), besideFlags(), []cli.Flag{jsonFlag()})
}

func quantFlag() cli.Flag {
	return oneOf(&cli.StringFlag{Name: "quant", Value: convert.QuantAuto,
		Usage: "auto (what the checkpoint declares, or what its values are already), none, or a quantizer `NAME`: " +
			strings.Join(quantizerNames(), ", ")},
		quantNames()...)
}

func scaleFlag() cli.Flag {
	return like(&cli.StringFlag{Name: "scale", Action: checkScale,
		Usage: "scale granularity `KIND`: tensor, row or group:N", DefaultText: "as the quantizer defines it"},
		scaleWords...)
}

// scaleWords are the first words of --scale values.
var scaleWords = []string{string(packed.ScaleTensor), string(packed.ScaleRow), string(packed.ScaleGroup) + ":"}

// layoutOf the weights that are converted.
func layoutOf(c *cli.Context) string {
	return cmp.Or(c.String("layout"), convert.LayoutFor(c.String("quant")))
}

// layoutNames lists the layouts of packed files, without exchange formats.
func layoutNames() []string {
	var names []string
	for _, l := range pack.Layouts() {
		if l.Block == 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

// quantNames lists the values of --quant.
func quantNames() []string {
	return append([]string{convert.QuantAuto, convert.QuantNone}, quantizerNames()...)
}

func quantizerNames() []string {
	var names []string
	for _, r := range quantize.Rules() {
		names = append(names, r.Name)
	}
	return names
}

func runConvert(c *cli.Context) error {
	if err := wantArgs(c, 1, "CHECKPOINT"); err != nil {
		return err
	}
	target := c.String("output")
	if target == "" && !c.Bool("dry-run") {
		return usagef("convert needs -o FILE, or --dry-run; for example: %s", proposal(c))
	}
	beside, err := besideOf(c)
	if err != nil {
		return err
	}
	recipe, err := recipeOf(c)
	if err != nil {
		return err
	}
	bar := newProgress(besideResult(c), "convert")
	options := convert.Options{
		Recipe:   *recipe,
		Threads:  c.Int("threads"),
		Report:   beside.report != "",
		Resume:   c.Bool("resume"),
		Progress: barOf(bar),
	}
	if options.Part, options.Parts, err = partOf(c); err != nil {
		return err
	}
	if err := calibrationOf(c, &options); err != nil {
		return err
	}
	source, err := checkpointOf(c, c.Args().First())
	if err != nil {
		return err
	}
	measured, err := decideAuto(c, source, &options)
	if err != nil {
		return err
	}
	allocated, err := decideBudget(c, source, &options)
	if err != nil {
		return err
	}
	plan, err := convert.NewPlan(c.Context, source, options)
	if err != nil {
		return err
	}
	defer plan.Close()
	plan.Notes = slices.Concat(plan.Notes, measured, allocated)
	switch c.String("layout") {
	case "":
		noteLayout(plan)
	case auto: // says what was measured
	default:
		noteOtherLayouts(plan)
	}
	if c.Bool("dry-run") {
		return dryRun(c, plan)
	}
	tell(c, plan.Notes, plan.Details)
	summary, err := plan.Run(c.Context, target)
	bar.done()
	if err == nil {
		err = beside.write(plan, source, target)
	}
	return reportSummary(c, target, summary, err)
}

// proposal is the command line that was typed, completed by the name of an output.
func proposal(c *cli.Context) string {
	line, _ := c.App.Metadata[typedLine].([]string)
	quoted := []string{"lowpack"}
	for _, word := range line {
		quoted = append(quoted, shellWord(word))
	}
	return strings.Join(append(quoted, "-o", shellWord(outputName(c.Args().First(), layoutOf(c)))), " ")
}

// outputName is the name of a packed file in the working directory, after its checkpoint and layout.
func outputName(checkpoint, layout string) string {
	if path, err := filepath.Abs(checkpoint); err == nil {
		checkpoint = path
	}
	name, _, _ := strings.Cut(filepath.Base(checkpoint), "@") // without a revision of the hub
	name = strings.Trim(strings.TrimSuffix(name, ".safetensors"), "-"+string(filepath.Separator))
	return cmp.Or(name, "model") + "." + layout + ".safetensors"
}

// shellWord quotes a word for POSIX shells if necessary.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// noteLayout reports the layout that was chosen by default, if any tensor uses it.
func noteLayout(p *convert.Plan) {
	name := p.Recipe.Layout
	if !slices.ContainsFunc(p.Tensors, func(r convert.Row) bool { return r.Layout == name }) {
		return
	}
	p.Details = append(p.Details, fmt.Sprintf("layout %s, the default on every machine; it has kernels for %s. "+
		"--layout NAME chooses another (see lowpack layouts)", name, strings.Join(kernelSets(name), ", ")))
}

// noteOtherLayouts reports which layers have a layout that neither the user nor a rule named.
func noteOtherLayouts(p *convert.Plan) {
	others := p.OtherLayouts()
	if len(others) == 0 {
		return
	}
	p.Notes = append(p.Notes, fmt.Sprintf("layout %s cannot have the codes of some layers: %d, the first of which is "+
		"%s, in %s; a rule of a recipe (--recipe) names other layouts", p.Recipe.Layout, len(others),
		others[0].Tensor, others[0].Layout))
}

// partOf reads --part I/N.
func partOf(c *cli.Context) (part, parts int, err error) {
	text := c.String("part")
	if text == "" {
		return 0, 0, nil
	}
	if c.IsSet("report") || c.IsSet("provenance") {
		return 0, 0, usagef("--report and --provenance are about a whole packed file, not about a part")
	}
	i, n, ok := strings.Cut(text, "/")
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || part < 1 || part > parts || parts > convert.MaxParts {
		return 0, 0, usagef("invalid value %q for --part: want I/N with I from 1 to N, and N at most %d", text,
			convert.MaxParts)
	}
	return part, parts, nil
}

func printSummary(w io.Writer, target string, s *convert.Summary) {
	work := s.Elapsed - s.Golden
	golden := ""
	if s.Golden > 0 {
		golden = fmt.Sprintf(", golden outputs in %.1f s", s.Golden.Seconds())
	}
	what := fmt.Sprintf("%d of %d tensors packed", s.Quantized, s.Tensors)
	if s.Quantized == 0 {
		what = fmt.Sprintf("a float model: none of %d tensors packed", s.Tensors)
	}
	fmt.Fprintf(w, "%s: %s, %s to %s in %.1f s (%s/s)%s\n",
		printable.Line(target), what, size(s.BytesIn), size(s.BytesOut), work.Seconds(),
		size(perSecond(s.BytesIn, work)), golden)
}

func perSecond(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

func recipeOf(c *cli.Context) (*packed.Recipe, error) {
	r := &packed.Recipe{
		Quant:      c.String("quant"),
		Layout:     c.String("layout"),
		Scale:      c.String("scale"),
		Head:       packed.Head(c.String("head")),
		Activation: c.String("activation"), Golden: packed.GoldenMode(c.String("golden")),
		AllowLossy: c.Bool("allow-lossy"), Include: c.StringSlice("include"),
	}
	var err error
	if r.Params, err = layoutParams(c); err != nil {
		return nil, err
	}
	if file := c.String("recipe"); file != "" {
		if r.Rules, err = readRules(file); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkPatterns refuses invalid patterns.
func checkPatterns(_ *cli.Context, patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return usagef("invalid value %q for --include: want a pattern, such as '*up*'", p)
		}
	}
	return nil
}

func checkScale(_ *cli.Context, text string) error {
	if convert.CheckScale(text) == nil {
		return nil
	}
	hint := ""
	if !strings.HasPrefix(text, string(packed.ScaleGroup)+":") {
		hint = didYouMean(text, scaleWords)
	}
	return usagef("invalid --scale %q: must be one of tensor, row, group:N (N columns per scale)%s", text, hint)
}

// layoutParams returns the parameters of --layout, which the layout must have.
func layoutParams(c *cli.Context) (map[string]int, error) {
	params, err := paramsOf(c)
	if err != nil || params == nil {
		return nil, err
	}
	if _, err := pack.Open(pack.Spec{Name: layoutOf(c), Params: params}); err != nil {
		return nil, usagef("invalid --param: %v%s", err, meantParam(layoutOf(c), params))
	}
	return params, nil
}

// meantParam suggests a parameter of the layout for the first unknown name.
func meantParam(layout string, params map[string]int) string {
	info, err := pack.FindLayout(layout)
	if err != nil {
		return ""
	}
	var names []string
	for _, p := range info.Params {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(names, name) {
			return didYouMean(name, names)
		}
	}
	return ""
}

// paramsOf reads the NAME=NUMBER pairs of --param.
func paramsOf(c *cli.Context) (map[string]int, error) {
	var params map[string]int
	for _, pair := range c.StringSlice("param") {
		name, text, ok := strings.Cut(pair, "=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil {
			return nil, usagef("invalid value %q for --param: want NAME=NUMBER", pair)
		}
		if params == nil {
			params = map[string]int{}
		}
		params[name] = n
	}
	return params, nil
}

// readRules reads a recipe: a YAML document with a list `rules`.
func readRules(path string) ([]packed.Rule, error) {
	text, err := readSmall(path, maxWritten)
	if err != nil {
		return nil, err
	}
	var recipe struct {
		Rules []packed.Rule `yaml:"rules"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&recipe); err != nil {
		return nil, fmt.Errorf("%w: recipe %s: %v%s", pack.ErrCorrupt, path, plainerr.YAML(err), meantKey(err))
	}
	if len(recipe.Rules) == 0 {
		return nil, fmt.Errorf("%w: recipe %s has no rules", pack.ErrCorrupt, path)
	}
	for i, r := range recipe.Rules {
		err := cmp.Or(checkWord("quant", r.Quant, quantNames()), checkWord("layout", r.Layout, layoutNames()))
		if err != nil {
			return nil, fmt.Errorf("%w: recipe %s: rule %d: %v", pack.ErrCorrupt, path, i+1, err)
		}
	}
	return recipe.Rules, nil
}

// unknownKey matches package yaml's error for an unknown key of a recipe.
var unknownKey = regexp.MustCompile(`field (\S+) not found`)

// meantKey suggests a key of a recipe.
func meantKey(err error) string {
	m := unknownKey.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return didYouMean(m[1], []string{"rules", "match", "quant", "layout", "params", "scale", "keep"})
}

// dryRun measures the relative errors and prints the plan.
func dryRun(c *cli.Context, plan *convert.Plan) error {
	if err := plan.Measure(c.Context); err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, plan)
	}
	out := c.App.Writer
	rows := [][]string{{"tensor", "shape", "dtype", "rule", "layout", "scale", "bytes in", "bytes out", "bits/weight",
		"rel. error", ""}}
	var in int64
	for _, r := range plan.Tensors {
		in += r.BytesIn
		relError := ""
		if r.RelError != nil && r.Layout != "" {
			relError = fmt.Sprintf("%.4f", *r.RelError)
		}
		rows = append(rows, []string{r.Tensor, shapeText(r.Shape), r.DType, r.Rule, r.Layout, r.Scale,
			strconv.FormatInt(r.BytesIn, 10), strconv.FormatInt(r.BytesOut, 10), fmt.Sprintf("%.2f", r.BitsPerWeight),
			relError, r.Note})
	}
	table(out, map[int]bool{6: true, 7: true, 8: true, 9: true}, rows)
	for _, text := range shown(c, plan.Notes, plan.Details) {
		noteTo(out, text)
	}
	family := plan.Family
	if family == "" {
		family = "weights without a model"
	}
	fmt.Fprintf(out, "activations: %s\n", plan.Activation)
	fmt.Fprintf(out, "%s: %d tensors, %s would become a packed file of %s\n", family, len(plan.Tensors), size(in),
		size(plan.Bytes))
	return nil
}
