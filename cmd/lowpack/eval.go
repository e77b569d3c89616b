package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/eval"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

func evalCommand() *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "measure how well a packed model predicts a text",
		ArgsUsage: "FILE",
		UsageText: "lowpack eval FILE --file TEXT [flags]",
		Description: `The text is cut into windows of tokens; in each, the model reads the begin-of-text token, where its tokenizer puts one
in front of texts, and the window, and every token is scored once. With --against, the predictions are compared with
those of another form of the same model: KL divergence from it, ratio of the perplexities, and how often both have the
same argmax token, each with its standard error. FILE and the other form are packed files, or checkpoints as run takes
them; --kv-cache-type is that of FILE alone. All figures but the times are the same on every machine.

With --task, FILE is asked questions that are made from the text, such as a book: which word ends a passage, of those
that were mentioned in it (last-word), which of four sentences follows one (cloze), or which number a sentence states
that is hidden in a passage of --window tokens, at a tenth to nine tenths of it (passkey). Printed are acc, acc_norm and
perplexity as lm-evaluation-harness has them, each with its standard error by bootstrapping, and with --against, which
may be any model then, the differences question by question.

  lowpack eval model.safetensors --file wiki.test.raw --tokens 20000
  lowpack eval int8-head.safetensors --against model.safetensors --file wiki.test.raw --svg kl.svg
  lowpack eval int4.safetensors --against MODEL_DIR --file wiki.test.raw
  lowpack eval model.safetensors --against model.safetensors --kv-cache-type f16 --file wiki.test.raw
  lowpack eval int4.safetensors --task last-word --against model.safetensors --file book.txt
  lowpack eval model.safetensors --task cloze --file book.txt --questions cloze.jsonl
  lowpack eval model.safetensors --task passkey --window 4000 --kv-cache-type i4 --file book.txt`,
		Flags: append(textFlags("to predict", "text"), []cli.Flag{
			inputFlag("against", "compare with this packed `FILE` or checkpoint"),
			oneOf(&cli.StringFlag{Name: "bos", Usage: "begin windows with the begin-of-text token: `WHEN` is yes or no",
				DefaultText: "as the tokenizer does"}, "yes", "no"),
			between(0, maxTokens, &cli.IntFlag{Name: "window", Usage: "`N` tokens per window, or question of passkey",
				DefaultText: "2048, or what the model was made for"}),
			between(0, maxTokens, &cli.IntFlag{Name: "stride", Usage: "a window begins every `N` tokens",
				DefaultText: "no overlap"}),
			between(0, maxTokens, &cli.IntFlag{Name: "tokens", Usage: "evaluate only the first `N` tokens of the text",
				DefaultText: "all"}),
			oneOf(&cli.StringFlag{Name: "task",
				Usage: "ask questions from the text: `TASK` is last-word, cloze or passkey"},
				words(questions.List())...),
			besideFlag("questions", "write the questions of --task to `FILE`, as JSON Lines for lm-evaluation-harness"),
			cacheTypeFlag(),
			threadsFlag("compute"),
			besideFlag("svg", "draw the loss, or the divergence, by position to `FILE`"),
			jsonFlag(),
		}...),
		Action: runEval,
	}
}

func runEval(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	if err := checkTask(c); err != nil {
		return err
	}
	text, err := readPrompt(c)
	if err != nil {
		return err
	}
	if c.IsSet("task") {
		return runTask(c, text)
	}
	return runText(c, text)
}

// runText scores every token of a text.
func runText(c *cli.Context, text string) error {
	path := c.Args().First()
	m, err := openEvaluated(c, path, text, engine.CacheType(c.String("kv-cache-type")))
	if err != nil {
		return err
	}
	defer m.Close()
	var against *engine.Engine
	if path := c.String("against"); path != "" {
		other, err := openEvaluated(c, path, text, engine.CacheF32)
		if err != nil {
			return err
		}
		defer other.Close()
		against = other.Engine
		if !slices.Equal(m.ids, other.ids) {
			return fmt.Errorf("%w: %s and %s cut the text into different tokens: their predictions cannot be compared",
				pack.ErrUnsupported, c.Args().First(), path)
		}
	}
	bare, err := bare(m.Model, c.String("bos"))
	if err != nil {
		return filerr.Named(path, err)
	}
	p := newCounter(besideResult(c), "eval", things("tokens"))
	r, err := eval.Run(c.Context, m.Engine, against, m.ids, eval.Options{
		Window:   c.Int("window"),
		Stride:   c.Int("stride"),
		Bare:     bare,
		Text:     c.String("file"),
		Model:    path,
		Other:    c.String("against"),
		Progress: func(done, total int) { p.set(int64(done), int64(total), "") },
	})
	p.done()
	if err != nil {
		return err
	}
	if svg := c.String("svg"); svg != "" {
		chart := r.Plot(evalTitle(path, c.String("against")))
		if err := writeFile(svg, func(w io.Writer) error { return plot.SVG(w, chart) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, r)
	}
	printEval(c.App.Writer, r)
	return nil
}

// evaluated is a model with the tokens that it sees in the text.
type evaluated struct {
	*lowpack.Model
	ids []int
}

func openEvaluated(c *cli.Context, path, text string, cache engine.CacheType) (*evaluated, error) {
	m, err := openForm(c, path, cache)
	if err != nil {
		return nil, err
	}
	ids, err := m.Tokenizer.Encode(text, false)
	if err != nil {
		m.Close()
		return nil, filerr.Named(path, err)
	}
	if n := c.Int("tokens"); n > 0 && n < len(ids) {
		ids = ids[:n]
	}
	return &evaluated{m, ids}, nil
}

// openForm opens a packed file, or that of a checkpoint.
func openForm(c *cli.Context, path string, cache engine.CacheType) (*lowpack.Model, error) {
	path, err := packedOf(c, path)
	if err != nil {
		return nil, err
	}
	return lowpack.OpenWith(path, engine.Options{Threads: c.Int("threads"), Context: windowContext(c), Cache: cache})
}

// bare reports whether a model reads texts without a begin-of-text token in front.
func bare(m *lowpack.Model, bos string) (bool, error) {
	if bos != "" {
		return bos == "no", nil
	}
	ids, err := m.Tokenizer.Encode("", true)
	return !slices.Contains(ids, m.Engine.Description().BOS), err
}

// windowContext returns the context length that the windows need. A window of a single token has nothing to predict,
// which package eval refuses; the engine gets a context of at least two.
func windowContext(c *cli.Context) int {
	if n := c.Int("window"); n != 1 {
		return n
	}
	return 2
}

func evalTitle(path, against string) string {
	if against == "" {
		return filepath.Base(path)
	}
	return filepath.Base(path) + " against " + filepath.Base(against)
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func printEval(w io.Writer, r *eval.Result) {
	begin := ", each after the begin-of-text token"
	if !r.BeginOfText {
		begin = ""
	}
	deviation := func(format string, x float64) string {
		if r.Tokens == 1 { // has none
			return "–"
		}
		return fmt.Sprintf(format, x)
	}
	rows := [][]string{
		{"perplexity", fmt.Sprintf("%.4f ± %s", r.Perplexity, deviation("%.4f", r.PerplexityError))},
		{"mean loss", fmt.Sprintf("%.6f nats per token", r.MeanNLL)},
		{"tokens", fmt.Sprintf("%d scored, in %s of %d, one every %d%s", r.Tokens,
			counted(r.Windows, "window"), r.Window,
			r.Stride, begin)},
		{"speed", fmt.Sprintf("%.1f tokens/s", r.TokensPerSecond)},
	}
	if a := r.Against; a != nil {
		rows = append(rows,
			[]string{"other's perplexity", fmt.Sprintf("%.4f", a.Perplexity)},
			[]string{"perplexity ratio", fmt.Sprintf("%.5f ± %s", a.Ratio, deviation("%.5f", a.RatioError))},
			[]string{"KL divergence", fmt.Sprintf("%.3g ± %s nats on average, %.3g at 99 %%, %.3g at most (token %d)",
				a.MeanKL, deviation("%.2g", a.MeanKLError), a.P99KL, a.MaxKL, a.MaxAt)},
			[]string{"same argmax", fmt.Sprintf("%.2f ± %s %%", 100*a.Top1, deviation("%.2f", 100*a.Top1Error))})
	}
	table(w, nil, rows)
}
