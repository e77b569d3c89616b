package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "generate text with a packed model",
		ArgsUsage: "FILE",
		UsageText: "lowpack run FILE -p TEXT [flags]\n  lowpack run FILE [--chat]",
		Description: `The text streams to standard output, statistics (prefill and decode in
tokens per second) to standard error, with --chat on a terminal only. Without -p or --file the prompt is read
from standard input; it has at most ` + textLimit + `. On a terminal, control characters in the text are shown escaped.
On a terminal, run FILE alone is a conversation: Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands (new
conversation, system message, settings, save and load), and """ begins and ends a message of several lines. An answer
may fill the context, from which the oldest turns go when it is full. Messages are kept in the user's cache folder, for
the arrow keys. With --chat in a pipe each line of standard input is a message.
Sampling follows the model's generation_config.json unless flags say otherwise; the same file, prompt, flags and seed
give the same text on every machine. FILE may also be a checkpoint, or ORG/NAME of a model on the hub: it is converted
once, with the defaults of lowpack convert, and the packed file is kept in the user's cache folder. Or it is
oci://HOST/NAME[:TAG], a packed file in a registry, which is kept there too.

  lowpack run model.safetensors -p "Once upon a time" -n 100
  lowpack run model.safetensors -p "The answer is" --temperature 0      # greedy
  lowpack run model.safetensors
  lowpack run MODEL_DIR --chat < questions.txt
  lowpack run model.safetensors --file prompt.txt -n 0 --logits logits.safetensors`,
		Flags:  runFlags(),
		Action: runRun,
	}
}

func runFlags() []cli.Flag {
	text := textFlags("to continue; control tokens written in it, such as <|eot_id|>, are control tokens")
	return append(text, []cli.Flag{
		plainFlag(),
		between(-1, maxTokens, &cli.IntFlag{Name: "tokens", Aliases: []string{"n"}, Value: 128,
			Usage: "generate at most `N` tokens; 0 = prompt only, -1 = until the context is full, as in a " +
				"conversation on a terminal"}),
		number(0, false, math.MaxFloat32,
			&cli.Float64Flag{Name: "temperature", Usage: "sampling temperature `T` (0 = greedy)",
				DefaultText: "the model's"}),
		between(0, math.MaxInt32, &cli.IntFlag{Name: "top-k", Usage: "sample from the `K` most likely tokens (0 = all)",
			DefaultText: "the model's"}),
		number(0, false, 1, &cli.Float64Flag{Name: "top-p",
			Usage:       "sample from the most likely tokens whose probabilities add up to `P` (1 = all)",
			DefaultText: "the model's"}),
		number(0, false, 1, &cli.Float64Flag{Name: "min-p",
			Usage:       "sample from tokens at least `P` times as likely as the first (0 = all)",
			DefaultText: "the model's"}),
		number(0, true, math.MaxFloat32,
			&cli.Float64Flag{Name: "repetition-penalty", Usage: "repetition penalty `R` (1 = off)",
				DefaultText: "the model's"}),
		&cli.Uint64Flag{Name: "seed", Usage: "random seed `N`"},
		&cli.StringSliceFlag{Name: "stop", Action: checkStops, Usage: "stop at this `TEXT`; may be repeated"},
		&cli.BoolFlag{Name: "chat", Usage: "hold a conversation; -p or --file is the first message"},
		&cli.StringFlag{Name: "system", Usage: "begin the conversation with the system message `TEXT`"},
		thinkFlag(),
		&cli.BoolFlag{Name: "no-stats", Usage: "do not print tokens per second"},
		inputFlag("chat-template", "use this chat template: a Jinja `FILE`, or one of the model's own by name"),
		&cli.BoolFlag{Name: "ids", Usage: "print token ids instead of text"},
		besideFlag("logits", "write the logits of the prompt positions to `FILE` (safetensors, F32)"),
		between(0, maxTokens, &cli.IntFlag{Name: "context", Usage: "context length: `N` tokens of prompt and text",
			DefaultText: "the model's, at most 4096"}),
		cacheTypeFlag("cache"),
		speculateFlag(),
		inputFlag("draft",
			"guess tokens with a smaller model of the same tokenizer as well, a packed `FILE`; the text stays the "+
				"same"),
		deviceFlag("compute on this `DEVICE`; the text stays the same"),
		deviceLayersFlag(),
		numaFlag(),
		threadsFlag("compute"),
		plainHTTPFlag(),
	}...)
}

// checkStops refuses the empty text, at which every text would stop.
func checkStops(_ *cli.Context, stops []string) error {
	if slices.Contains(stops, "") {
		return usagef("invalid value \"\" for --stop: want a text")
	}
	return nil
}

// session is a loaded model at work.
type session struct {
	*lowpack.Model
	path string
	seq  *engine.Sequence
	load time.Duration
}

func openSession(c *cli.Context, path string) (*session, error) {
	start := time.Now()
	m, err := lowpack.OpenWith(path,
		engine.Options{Threads: c.Int("threads"), Context: c.Int("context"),
			Cache: engine.CacheType(c.String("kv-cache-type")), Device: c.String("device"),
			DeviceLayers: c.Int("device-layers"), NUMA: numaMode(c),
			Notice: func(line string) { note(c, line) }})
	if err != nil {
		return nil, err
	}
	noteLayers(c, m.Engine)
	noteNodes(c, m.Engine)
	s := &session{Model: m, path: path}
	if draft := c.String("draft"); draft != "" {
		if draft, err = modelPath(draft); err == nil {
			err = m.UseDraft(draft)
		}
		if err != nil {
			m.Close()
			return nil, err
		}
	}
	if s.seq, err = m.Engine.NewSequence(); err != nil {
		m.Close()
		return nil, filerr.Named(path, err)
	}
	s.load = time.Since(start)
	return s, nil
}

func runRun(c *cli.Context) error {
	if err := wantArgs(c, 1, "FILE"); err != nil {
		return err
	}
	if err := checkChat(c); err != nil {
		return err
	}
	chat := wantsChat(c)
	var prompt string
	if !chat || hasText(c) {
		var err error
		if prompt, err = readPrompt(c); err != nil {
			return err
		}
	}
	if c.IsSet("draft") && c.String("speculate") == "off" {
		return usagef("--draft and --speculate off cannot be combined")
	}
	file, err := packedOf(c, c.Args().First())
	if err != nil {
		return err
	}
	s, err := openSession(c, file)
	if err != nil {
		return err
	}
	defer s.Close()
	request, err := s.request(c)
	if err != nil {
		return err
	}
	if chat && !c.Bool("chat") && len(s.Tokenizer.ChatTemplates()) == 0 {
		return usagef("%s has no chat template, so that there is no conversation: give it a text to continue with -p "+
			"TEXT, --file FILE or standard input", file)
	}
	if chat {
		return s.chat(c, request, prompt)
	}
	return filerr.Named(s.path, s.complete(c, request, prompt))
}

// wantsChat reports whether a conversation is requested, or a person at a terminal gives no text.
func wantsChat(c *cli.Context) bool {
	given := hasText(c) || c.IsSet("logits") || c.IsSet("ids")
	return c.Bool("chat") || !given && isTerminal(c.App.Reader)
}

// checkChat refuses flags that are invalid in a conversation, or outside of one.
func checkChat(c *cli.Context) error {
	for _, name := range []string{"system", "chat-template", "think"} {
		if c.IsSet(name) && !wantsChat(c) {
			return usagef("--%s needs --chat", name)
		}
	}
	if c.IsSet("logits") && c.Bool("chat") {
		return usagef("--logits and --chat cannot be combined")
	}
	return nil
}

// request combines flags and the model's generation_config.json, for all texts of this run.
func (s *session) request(c *cli.Context) (engine.Request, error) {
	sampling, err := s.Sampling()
	if err != nil {
		return engine.Request{}, filerr.Named(s.path, err)
	}
	for name, field := range map[string]*float32{"temperature": &sampling.Temperature, "top-p": &sampling.TopP,
		"min-p": &sampling.MinP, "repetition-penalty": &sampling.RepetitionPenalty} {
		if c.IsSet(name) {
			*field = float32(c.Float64(name))
		}
	}
	if c.IsSet("top-k") {
		sampling.TopK = c.Int("top-k")
	}
	sampling.Seed = c.Uint64("seed")
	speculate, err := speculation(c.String("speculate"))
	if err != nil {
		return engine.Request{}, err
	}
	n := c.Int("tokens")
	return engine.Request{Sampling: sampling, MaxTokens: max(n, 0), StopTexts: c.StringSlice("stop"),
		StopTokens: s.StopTokens(), Speculate: speculate, Drafts: s.Drafts}, sampling.Check()
}

// complete continues one prompt.
func (s *session) complete(c *cli.Context, r engine.Request, prompt string) error {
	var err error
	if r.Prompt, err = encodeText(s.Tokenizer, prompt, true, c.Bool(plainFlagName)); err != nil {
		return err
	}
	if len(r.Prompt) == 0 {
		return fmt.Errorf("%w: the prompt has no tokens", pack.ErrUnsupported)
	}
	if most := s.Engine.Options().Context; len(r.Prompt) > most {
		err := fmt.Errorf("%w: the prompt has %d tokens, the context holds %d; shorten it, or use a larger --context",
			pack.ErrLimit, len(r.Prompt), most)
		if file := c.String("file"); file != "" {
			return filerr.Named(file, err)
		}
		return err
	}
	if path := c.String("logits"); path != "" {
		if err := s.writeLogits(c.Context, path, r.Prompt, maxLogits); err != nil {
			return err
		}
	}
	if c.Int("tokens") == 0 {
		return nil
	}
	r.Decoder = s.Tokenizer.NewStream(true)
	out := &writer{w: dataOf(c.App.Writer), ids: c.Bool("ids")}
	result, err := s.generate(c.Context, besideResult(c), r, out.piece)
	out.end()
	if err == nil {
		err = out.err
	}
	if err == nil && !c.Bool("no-stats") {
		s.statistics(besideResult(c), len(r.Prompt), result)
	}
	return err
}

// writer prints the pieces of a text as they come.
type writer struct {
	w   io.Writer
	ids bool
	any bool
	err error
}

func (w *writer) piece(p engine.Piece) bool {
	switch {
	case !w.ids:
		_, w.err = io.WriteString(w.w, p.Text)
	case p.Token >= 0:
		sep := " "
		if !w.any {
			sep = ""
		}
		_, w.err = fmt.Fprintf(w.w, "%s%d", sep, p.Token)
	}
	w.any = true
	return w.err == nil
}

func (w *writer) end() { fmt.Fprintln(w.w) }

// statistics prints the time and speed of a run, after its text.
func (s *session) statistics(w io.Writer, prompt int, r engine.Result) {
	line := append([]string{fmt.Sprintf("loaded in %.0f ms", s.load.Seconds()*1e3)}, speeds(prompt, r)...)
	if peak := peakMemory(); peak > 0 {
		line = append(line, "peak memory "+size(peak))
	}
	paint(w, dim, "\n"+strings.Join(line, "; ")+"\n")
}

// speeds returns the tokens and tokens per second of prefill and decode. The first new token comes out of the prefill.
// Some systems have clocks with a resolution of milliseconds.
func speeds(prompt int, r engine.Result) []string {
	rate := func(n int, d time.Duration) string {
		if d <= 0 {
			return "too short to measure"
		}
		return fmt.Sprintf("%.1f tokens/s", float64(n)/d.Seconds())
	}
	line := []string{
		fmt.Sprintf("prefill %s, %s", counted(prompt, "token"), rate(prompt, r.Prompt)),
		fmt.Sprintf("decode %s, %s (%s)", counted(len(r.Tokens), "token"), rate(max(len(r.Tokens)-1, 0), r.Decode),
			r.Reason),
	}
	if drafts := draftsText(r); drafts != "" {
		line = append(line, drafts)
	}
	return line
}

// maxLogits bounds the bytes of logits that are held at once.
const maxLogits = 32 << 20

// writeLogits computes the prompt in a separate sequence and writes the logits after each of its tokens. It holds at
// most the given number of bytes of logits, or one token's.
func (s *session) writeLogits(ctx context.Context, path string, prompt []int, most int) error {
	defer s.seq.Truncate(0)
	vocab := s.Engine.Description().Vocab
	piece := max(1, most/(4*vocab))
	logits := make([]float32, min(piece, len(prompt))*vocab)
	return writeF32(path, "logits", []int{len(prompt), vocab}, func(write func([]float32) error) error {
		for tokens := range slices.Chunk(prompt, piece) {
			part := logits[:len(tokens)*vocab]
			if err := s.Engine.Forward(ctx, []engine.Chunk{{Seq: s.seq, Tokens: tokens, Logits: part}}); err != nil {
				return err
			}
			if err := write(part); err != nil {
				return err
			}
		}
		return nil
	})
}
