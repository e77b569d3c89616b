package server

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// BenchmarkFormat measures the time between two tokens of a choice, and the part of it outside the forward pass, for 1,
// 8 and 32 choices of the model LOWPACK_MODEL, with and without a format.
func BenchmarkFormat(b *testing.B) {
	path := os.Getenv("LOWPACK_MODEL")
	if path == "" {
		b.Skip("LOWPACK_MODEL names no packed file")
	}
	f, err := packed.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	o, err := engine.Options{Context: 256, Sequences: 32}.For(f)
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{}, Model{ID: "m", File: f, Engine: o,
		Load: func() (*tokenizer.Tokenizer, *engine.Engine, error) {
			tok, err := tokenizer.Load(f.Embedded)
			if err != nil {
				return nil, nil, err
			}
			e, err := engine.New(f, o)
			return tok, e, err
		}})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	defer s.Drain(b.Context())
	run := func(b *testing.B, texts int, format string) {
		var group sync.WaitGroup
		for i := range texts {
			group.Go(func() {
				body := fmt.Sprintf(
					`{"prompt": [300, 301, 302], "max_tokens": 16, "temperature": 1, "top_k": 20, "seed": %d%s}`, i,
					format)
				if status, _, text := post(b, web, "/v1/completions", body); status != http.StatusOK {
					b.Errorf("%d %s", status, text)
				}
			})
		}
		group.Wait()
	}
	run(b, 1, "")
	for _, texts := range []int{1, 8, 32} {
		for _, c := range []struct{ name, format string }{
			{"free", ""},
			{"object", `, "response_format": {"type": "json_object"}`},
			{"bounded", `, "guided_json": {"type": "string", "maxLength": %d}`},
			{"pattern", `, "guided_regex": "[a-z ]{0,%d}"`},
		} {
			b.Run(fmt.Sprint(c.name, "/", texts), func(b *testing.B) {
				before := sums(b, web)
				for i := range b.N {
					format := c.format
					if c.name == "bounded" || c.name == "pattern" {
						format = fmt.Sprintf(format, 500+texts+i) // a format that is not cached
					}
					run(b, texts, format)
				}
				after := sums(b, web)
				for i := range after {
					after[i] -= before[i]
				}
				step, pass := 1e3*after[0]/after[1], 1e3*after[2]/after[3]
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(step, "ms/step")
				b.ReportMetric(step-pass, "ms-between/step")
			})
		}
	}
}

// sums returns the sum and count of the times between tokens and of forward passes.
func sums(b *testing.B, web *httptest.Server) (list [4]float64) {
	_, _, text := do(b, web, http.MethodGet, "/metrics", "")
	for i, name := range []string{"vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count",
		"lowpack:iteration_time_seconds_sum", "lowpack:iteration_time_seconds_count"} {
		m := regexp.MustCompile(`(?m)^` + name + `\{.*\} (.*)$`).FindStringSubmatch(text)
		if list[i] = math.NaN(); m != nil {
			list[i], _ = strconv.ParseFloat(m[1], 64)
		}
	}
	return list
}
