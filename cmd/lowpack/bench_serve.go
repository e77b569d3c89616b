package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/loadgen"
	"github.com/lowpack/lowpack/internal/printable"
)

func benchServeCommand() *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "measure an OpenAI-compatible server under load",
		ArgsUsage: "URL",
		UsageText: "lowpack bench serve URL [flags]",
		Description: `URL is that of a server, such as http://127.0.0.1:8080. It gets requests for completions of random tokens, as streams, and
their times are told by the definitions of vllm bench serve: TTFT to the first text, ITL between pieces of text, TPOT per
token behind the first, E2EL to the end. --json has its names.

With --concurrency the loop is closed: so many requests at once. Otherwise it is open: requests are sent at random moments,
--rate of them per second on average, whether or not the server keeps up, and their times count from these moments.

  lowpack bench serve http://127.0.0.1:8080 --concurrency 8 --requests 64
  lowpack bench serve http://127.0.0.1:8080 --rate 2 --input-len 512 --goodput ttft:500,tpot:50`,
		Flags: []cli.Flag{
			between(1, 1<<20, &cli.IntFlag{Name: "requests", Value: 32, Usage: "send `N` requests"}),
			between(0, 1<<14, &cli.IntFlag{Name: "concurrency", Usage: "keep `N` requests running",
				DefaultText: "an open loop"}),
			number(0, false, 1e6, &cli.Float64Flag{Name: "rate",
				Usage: "send `R` requests per second (0 = all at once)"}),
			between(1, maxTokens, &cli.IntFlag{Name: "input-len", Value: 128, Usage: "prompts of `N` tokens"}),
			between(1, maxTokens, &cli.IntFlag{Name: "output-len", Value: 64,
				Usage: "generate `N` tokens per request"}),
			&cli.Uint64Flag{Name: "seed", Usage: "of prompts and moments: a number `N`"},
			&cli.StringFlag{Name: "goodput",
				Usage: "count requests within limits in milliseconds, a `LIST` of ttft:MS, tpot:MS and e2el:MS"},
			&cli.StringFlag{Name: "model", Usage: "ask for the model `NAME`",
				DefaultText: "the first one of the server"},
			&cli.StringFlag{Name: "api-key", Usage: "send this `KEY`", EnvVars: []string{"LOWPACK_API_KEY"}},
			jsonFlag(),
		},
		Action: runBenchServe,
	}
}

func runBenchServe(c *cli.Context) error {
	if err := wantArgs(c, 1, "URL"); err != nil {
		return err
	}
	if c.IsSet("rate") && c.Int("concurrency") > 0 {
		return usagef("--rate and --concurrency cannot be combined: one is an open loop, the other a closed one")
	}
	limits, err := goodputLimits(c.String("goodput"))
	if err != nil {
		return err
	}
	u, err := url.Parse(c.Args().First())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("%q is not the URL of a server, such as http://127.0.0.1:8080", printable.Line(c.Args().First()))
	}
	p := newCounter(besideResult(c), "bench", things("requests"))
	o := loadgen.Options{
		URL:         strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/v1"),
		Key:         c.String("api-key"),
		Model:       c.String("model"),
		Requests:    c.Int("requests"),
		Rate:        c.Float64("rate"),
		Concurrency: c.Int("concurrency"),
		Input:       c.Int("input-len"),
		Output:      c.Int("output-len"),
		Seed:        c.Uint64("seed"), Goodput: limits, Progress: func(done int) {
			p.set(int64(done), int64(c.Int("requests")), "")
		},
	}
	if o.Model == "" {
		if o.Model, err = firstModel(c.Context, o.URL, o.Key); err != nil {
			return err
		}
	}
	r, err := loadgen.Run(c.Context, o)
	p.done()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, r)
	} else {
		printLoad(c.App.Writer, r)
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed; the first one: %s", r.Failed, r.Requests, printable.Line(r.Error))
	}
	return err
}

// goodputLimits reads a list such as ttft:500,tpot:50.
func goodputLimits(list string) (l loadgen.Limits, err error) {
	if list == "" {
		return l, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		name, number, _ := strings.Cut(item, ":")
		to := map[string]*time.Duration{"ttft": &l.TTFT, "tpot": &l.TPOT, "e2el": &l.E2EL}[name]
		ms, err := strconv.ParseFloat(number, 64)
		if to == nil || err != nil || !(ms > 0 && ms < math.MaxInt32) {
			return l, usagef("invalid --goodput %q: want ttft:MS, tpot:MS or e2el:MS, separated by commas", list)
		}
		*to = time.Duration(ms * float64(time.Millisecond))
	}
	return l, nil
}

// firstModel asks a server for the name of its model.
func firstModel(ctx context.Context, server, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&list)
	if answer.StatusCode != http.StatusOK || err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models: status %d, no list of models", server, answer.StatusCode)
	}
	return list.Data[0].ID, nil
}

func printLoad(w io.Writer, r *loadgen.Report) {
	fmt.Fprintf(w, "%s: %d requests in %.1f s, %d failed; %d prompt tokens, %d generated\n\n", printable.Line(r.Model),
		r.Completed, r.Duration, r.Failed, r.Input, r.Output)
	fmt.Fprintf(w, "requests/s          %10.2f\n", r.RequestThroughput)
	if r.Goodput != nil {
		fmt.Fprintf(w, "good requests/s     %10.2f\n", *r.Goodput)
	}
	fmt.Fprintf(w, "generated tokens/s  %10.1f\nall tokens/s        %10.1f\n\n", r.OutputThroughput, r.TotalThroughput)
	fmt.Fprintf(w, "%-6s%12s%12s%12s%12s\n", "ms", "mean", "median", "std", "p99")
	for _, row := range []struct {
		name                   string
		mean, median, std, p99 float64
	}{
		{"TTFT", r.MeanTTFT, r.MedianTTFT, r.StdTTFT, r.P99TTFT},
		{"TPOT", r.MeanTPOT, r.MedianTPOT, r.StdTPOT, r.P99TPOT},
		{"ITL", r.MeanITL, r.MedianITL, r.StdITL, r.P99ITL}, {"E2EL", r.MeanE2EL, r.MedianE2EL, r.StdE2EL, r.P99E2EL},
	} {
		fmt.Fprintf(w, "%-6s%12.1f%12.1f%12.1f%12.1f\n", row.name, row.mean, row.median, row.std, row.p99)
	}
}
