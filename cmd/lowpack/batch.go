package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/textcolumns"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server"
	"github.com/lowpack/lowpack/runtime/server/batch"
)

func batchCommand() *cli.Command {
	return &cli.Command{
		Name:      "batch",
		Usage:     "answer a file of requests, as OpenAI's Batch API does",
		ArgsUsage: "FILE IN.jsonl",
		UsageText: "lowpack batch FILE IN.jsonl -o OUT.jsonl [flags]",
		Description: `Each line of IN.jsonl is a request, such as
  {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once upon a time", "max_tokens": 20}}
with a body that lowpack serve takes at /v1/chat/completions, /v1/completions, /v1/responses,
/v1/embeddings, /v1/rerank or /v1/score.
OUT.jsonl gets a line for each request that is answered, the error file one for each that is not, both in the order of
the input.
docs/BATCH.md has the format. A file with a line that is not a request is refused before anything is computed.
A name that ends with .parquet is that of a table, of requests or of results, with a row instead of a line.

The results depend on the requests, the model, --context, --kv-cache-type, --model-name, --any-model and --time alone:
the same bytes with any --parallel, on any machine, and for the parts of a file one after another as for the whole. Both
files appear complete or not at all. After an interruption or a crash the same command line continues where it was.

  lowpack batch model.safetensors requests.jsonl -o answers.jsonl
  lowpack batch model.safetensors requests.jsonl -o answers.jsonl --errors failed.jsonl --parallel 64
  lowpack batch model.safetensors requests.jsonl -o answers.jsonl --any-model --time 2026-01-31T12:00:00Z
  lowpack batch model.safetensors requests.parquet -o answers.parquet`,
		Flags:  batchFlags(),
		Action: runBatch,
	}
}

func batchFlags() []cli.Flag {
	return append(append([]cli.Flag{
		outputFlag("write the answers to `FILE`"),
		output{&cli.StringFlag{Name: "errors", Usage: "write the requests that failed, and why, to `FILE`",
			TakesFile: true, DefaultText: "beside the answers, OUT.errors.jsonl"}},
		&cli.StringFlag{Name: "model-name", Usage: "the `NAME` that requests may give the model",
			DefaultText: "the name of the file"},
		&cli.BoolFlag{Name: "any-model", Usage: "accept any model name in requests, instead of an error"},
		&cli.StringFlag{Name: "time", Usage: "the `TIME` that chat templates write into prompts and answers have as " +
			"created, such as 2026-01-31T12:00:00Z",
			DefaultText: "none: created is 0, and a template that writes the date is refused"},
	}, batchingFlags()...),
		deviceFlag("compute on this `DEVICE`; the answers stay the same"),
		deviceLayersFlag(),
		numaFlag(),
		threadsFlag("compute"))
}

func runBatch(c *cli.Context) error {
	if err := wantArgs(c, 2, "FILE and IN.jsonl"); err != nil {
		return err
	}
	b, err := batchOf(c)
	if err != nil {
		return err
	}
	file := c.Args().First()
	name := c.String("model-name")
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(file), ".safetensors")
	}
	m, err := hostedModel(c, name, file, nil)
	if err != nil {
		return err
	}
	defer m.File.Close()
	s, err := server.New(server.Options{AnyModel: c.Bool("any-model"), Queue: server.BatchQueue, PrefixCache: true,
		Memory: int64(engine.AvailableMemory()), Note: func(text string) { detail(c, text) }}, m)
	if err != nil {
		return filerr.Named(file, err)
	}
	defer s.Drain(canceled())
	return answerBatch(c, s, b)
}

// batchOf reads the flags.
func batchOf(c *cli.Context) (b server.Batch, err error) {
	b = server.Batch{Input: c.Args().Get(1), Output: c.String("output"), Errors: c.String("errors")}
	if b.Output == "" {
		return b, usagef("batch needs -o FILE; see `lowpack batch --help`")
	}
	if text := c.String("time"); text != "" {
		if b.Time, err = time.Parse(time.RFC3339, text); err != nil || b.Time.Unix() < 0 {
			return b, usagef("invalid --time %q: want a time such as 2026-01-31T12:00:00Z", text)
		}
		b.Time = b.Time.UTC().Truncate(time.Second)
	}
	if b.Errors != "" {
		return b, nil
	}
	extension := ".jsonl"
	if textcolumns.Named(b.Output) {
		extension = filepath.Ext(b.Output)
	}
	b.Errors = strings.TrimSuffix(b.Output, extension) + ".errors" + extension
	return b, checkDerived(c, "--errors", b.Errors)
}

// checkDerived is checkPaths for an output that no flag names.
func checkDerived(c *cli.Context, what, path string) error {
	reads, _, err := placesOf(c)
	if err != nil {
		return err
	}
	p := newPlace(what, path, false)
	if err := p.writable(); err != nil {
		return err
	}
	for i := range reads {
		if err := p.apart(&reads[i]); err != nil {
			return err
		}
	}
	return nil
}

// answerBatch answers the requests and reports how many there were.
func answerBatch(c *cli.Context, s *server.Server, b server.Batch) error {
	bar, start := newCounter(besideResult(c), "batch", things("requests")), time.Now()
	defer bar.done()
	var last batch.Progress
	b.Progress = func(p batch.Progress) {
		last = p
		bar.set(int64(p.Completed+p.Failed), int64(p.Total), tokenRate(p.Tokens, time.Since(start)))
	}
	counts, err := s.RunBatch(c.Context, b)
	bar.done()
	switch {
	case errors.Is(err, server.ErrNoTime):
		return fmt.Errorf("%w: --time sets it", err)
	case errors.Is(err, batch.ErrInterrupted):
		note(c, fmt.Sprintf("%d of %s answered; the same command line continues", counts.Completed+counts.Failed,
			counted(counts.Total, "request")))
		if errors.Is(err, context.Canceled) {
			return nil // the signal is the error
		}
		return err
	case err != nil:
		return filerr.Named(b.Input, err)
	}
	if counts.Failed > 0 {
		note(c, fmt.Sprintf("%s failed: %s says why", counted(counts.Failed, "request"), b.Errors))
	}
	detail(c, fmt.Sprintf("%d tokens of prompts, %d generated, %s", last.PromptTokens, last.Tokens,
		tokenRate(last.Tokens, time.Since(start))))
	_, err = fmt.Fprintf(c.App.Writer, "%s: %d answered, %d failed\n", counted(counts.Total, "request"),
		counts.Completed, counts.Failed)
	return err
}

// tokenRate prints the speed at which tokens were generated.
func tokenRate(tokens int, took time.Duration) string {
	if took < rateAfter {
		return ""
	}
	return fmt.Sprintf("%.0f tokens/s", float64(tokens)/took.Seconds())
}
