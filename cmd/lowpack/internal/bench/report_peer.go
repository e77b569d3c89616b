package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Peer is a program that measures a model of another runtime: llama-batched-bench of llama.cpp or of ik_llama.cpp, or
// one with its arguments and its table.
type Peer struct {
	Program string
	Args    []string // beside the model and the work
	Model   string   // a GGUF, or a directory of OpenVINO
	Like    string   // the same model as a packed file, for the operations of a token and the bytes of the KV cache
}

// Peer returns a runner that calls another program, and measures the limits of the machine just before.
func (f *Roofs) Peer(p Peer) Runner {
	return func(ctx context.Context, w Work) (rate, limit float64, err error) {
		limit, err = f.peerLimit(ctx, &p, w)
		if err != nil {
			return 0, 0, err
		}
		cmd := exec.CommandContext(ctx, p.Program, slices.Concat([]string{"-m", p.Model}, batchedArgs(w, f.threads),
			p.Args)...)
		cmd.Dir = filepath.Dir(p.Model) // where some versions write a log
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w\n%s", p.Program, err, tail(out))
		}
		prefill, decode, err := batchedSpeeds(out)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w\n%s", p.Program, err, tail(out))
		}
		if w.What == Prompt {
			return prefill, limit, nil
		}
		return decode, limit, nil
	}
}

// batchedArgs is some work in the words of llama-batched-bench. The context has room for its warm-up.
func batchedArgs(w Work, threads int) []string {
	prompt, generate := 1, w.Tokens
	switch w.What {
	case Prompt:
		prompt, generate = w.Tokens, 1
	case Context:
		prompt, generate = w.Tokens, contextSteps
	}
	room := max(256, (w.Batch*(prompt+generate)+255)/256*256)
	args := []string{"-t", strconv.Itoa(threads), "-c", strconv.Itoa(room), "-b", "2048", "-ub", "512"}
	return append(args, "-npp", strconv.Itoa(prompt), "-ntg", strconv.Itoa(generate), "-npl", strconv.Itoa(w.Batch))
}

// batchedSpeeds finds the tokens per second of prefill and of decode in the table that llama-batched-bench prints.
func batchedSpeeds(out []byte) (prefill, decode float64, err error) {
	var header []string
	for line := range strings.Lines(string(out)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case slices.Contains(cells, "S_PP t/s"):
			header = cells
		case header == nil || len(cells) != len(header) || strings.HasPrefix(cells[1], "---"):
		default:
			prefill, err = strconv.ParseFloat(cells[slices.Index(header, "S_PP t/s")], 64)
			if at := slices.Index(header, "S_TG t/s"); err == nil && at >= 0 {
				decode, err = strconv.ParseFloat(cells[at], 64)
			}
			if err == nil && positive(prefill) && positive(decode) {
				return prefill, decode, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("%w: it printed no table with tokens per second in S_PP and S_TG", pack.ErrUnsupported)
}

// tail of what a program printed.
func tail(out []byte) []byte {
	const most = 1000
	return bytes.TrimSpace(out[max(0, len(out)-most):])
}

// peerLimit measures how many tokens per second the machine would allow a model of another runtime.
func (f *Roofs) peerLimit(ctx context.Context, p *Peer, w Work) (float64, error) {
	bytes, err := peerBytes(p.Model)
	if err != nil {
		return 0, err
	}
	ops, kv, err := perPass(p.Like, w)
	if err != nil {
		return 0, err
	}
	passes, tokens := 1, w.Batch
	if w.What == Prompt {
		const physical = 512 // -ub
		passes, tokens = (w.Tokens+physical-1)/physical, w.Tokens
	}
	f.limits.warm()
	judged, err := f.limits.measure(ctx, &Meter{MaxSpread: 1e9}, work{isa: kernel.Best(), scale: 1}, func() {})
	if err != nil {
		return 0, err
	}
	read := float64(passes*bytes+kv) / (1e9 * judged.ReadGBs)
	multiply := float64(ops) / (1e9 * judged.PeakGOPS)
	return float64(tokens) / max(read, multiply), nil
}

// peerBytes counts the weights that a pass reads: of a GGUF all but an embedding that is not the output head, too; of a
// directory of OpenVINO all, as its embedding is the head in the model that is measured.
func peerBytes(path string) (n int, err error) {
	if weights, err := os.Stat(filepath.Join(path, "openvino_model.bin")); err == nil {
		return int(weights.Size()), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	header, err := gguf.Parse(f, info.Size())
	if err != nil {
		return 0, filerr.Named(path, err)
	}
	embedding, head := 0, false
	for _, t := range header.Tensors {
		n += int(t.Size)
		if t.Name == "token_embd.weight" {
			embedding = int(t.Size)
		}
		head = head || t.Name == "output.weight"
	}
	if head {
		n -= embedding
	}
	return n, nil
}

// perPass returns the integer operations of a pass in the middle of the work, or of a prompt, and the bytes of the KV
// cache that it reads.
func perPass(path string, w Work) (ops, kv int, err error) {
	file, d, err := openModel(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	o, _ := w.stage()
	o.Threads, o.Cache = 1, engine.CacheF16
	s, err := newStage(file, o)
	if err != nil {
		return 0, 0, err
	}
	defer s.engine.Close()
	steps := contextSteps
	if w.What == Generate {
		steps = w.Tokens
	}
	n := countOperations(d, file.Manifest())
	return n.of(&w, false), w.cacheBytes(s.engine, steps), nil
}
