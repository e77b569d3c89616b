package main

import (
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

// TestForeignWords: commands and flags of other programs are answered with lowpack's names.
func TestForeignWords(t *testing.T) {
	const all = "; `lowpack --help` lists all"
	for typed, want := range map[string]string{
		"run -m x.gguf":       "unknown flag -m: here it is FILE; see `lowpack run --help`",
		"run --model x.gguf":  "unknown flag --model: here it is FILE; see `lowpack run --help`",
		"serve -m x.gguf":     "unknown flag -m: here it is FILE; see `lowpack serve --help`",
		"serve --model x":     "unknown flag --model: here it is FILE; see `lowpack serve --help`",
		"bench -m x":          "unknown flag -m: here it is FILE; see `lowpack bench --help`",
		"tokenize -m x -p a":  "unknown flag -m: here it is FILE; see `lowpack tokenize --help`",
		"run x --n-predict 3": "unknown flag --n-predict: here it is --tokens; see `lowpack run --help`",
		"run x --n_predict 3": "unknown flag --n_predict: here it is --tokens; see `lowpack run --help`",
		"bench x -n 3":        "unknown flag -n: here it is --generate; see `lowpack bench --help`",
		"bench x -p 512":      "unknown flag -p: here it is --prefill; see `lowpack bench --help`",
		"run x --ctx-size 9":  "unknown flag --ctx-size: here it is --context; see `lowpack run --help`",
		"run x -c 9":          "unknown flag -c: here it is --context; see `lowpack run --help`",
		"serve x -c 9":        "unknown flag -c: here it is --context; see `lowpack serve --help`",
		"eval x -c 9":         "unknown flag -c: here it is --window; see `lowpack eval --help`",
		"eval x -f t":         "unknown flag -f: here it is --file; see `lowpack eval --help`",
		"run x -f t":          "unknown flag -f: here it is --file; see `lowpack run --help`",
		"tokenize x --text t": "unknown flag --text: here it is --file; see `lowpack tokenize --help`",
		"run x --top_k 3":     "unknown flag --top_k (did you mean --top-k?); see `lowpack run --help`",
		"run x --temp 0":      "unknown flag --temp: here it is --temperature; see `lowpack run --help`",
		"run x -ngl 99":       "unknown flag --ngl: here it is " + onlyCPU + "; see `lowpack run --help`",
		"serve x --n-gpu-layers 1": "unknown flag --n-gpu-layers: here it is " + onlyCPU +
			"; see `lowpack serve --help`",
		"serve x -np 4":           "unknown flag --np: here it is --parallel; see `lowpack serve --help`",
		"rm x --force":            "unknown flag --force: here it is --yes; see `lowpack rm --help`",
		"verify x -v":             "unknown flag -v: here it is --verbose; see `lowpack verify --help`",
		"generate x":              `unknown command "generate": here it is lowpack run` + all,
		"chat x":                  `unknown command "chat": here it is lowpack run` + all,
		"quantize x":              `unknown command "quantize": here it is lowpack convert` + all,
		"ls":                      `unknown command "ls": here it is lowpack list` + all,
		"ps":                      `unknown command "ps": here it is lowpack list` + all,
		"remove x":                `unknown command "remove": here it is lowpack rm` + all,
		"download x":              `unknown command "download": here it is lowpack pull` + all,
		"pul x/y":                 `unknown command "pul" (did you mean pull?)` + all,
		"get x/y":                 `unknown command "get": here it is lowpack pull` + all,
		"show x":                  `unknown command "show": here it is lowpack inspect` + all,
		"llama-bench -m x -p 512": `unknown command "llama-bench": here it is lowpack bench` + all,
		"run x --gpu-layers 1 -p hey": "unknown flag --gpu-layers: here it is " + onlyCPU +
			"; see `lowpack run --help`",
	} {
		if code, out := inPlace(strings.Fields(typed)...); code != 2 || out != "lowpack: "+want+"\n" {
			t.Errorf("%q: exit code %d\n%swant\nlowpack: %s", typed, code, out, want)
		}
	}
}

// TestForeignCommands: suggested commands exist.
func TestForeignCommands(t *testing.T) {
	app := newApp(strings.NewReader(""), nil, nil)
	for foreign, own := range foreignCommands {
		name, _, _ := strings.Cut(own, " ")
		if app.Command(name) == nil || app.Command(foreign) != nil {
			t.Errorf("%s: %s", foreign, own)
		}
	}
	flags := map[string]bool{}
	for _, c := range app.Commands {
		for _, cmd := range append(c.Subcommands, c) {
			for _, f := range cmd.Flags {
				for _, name := range f.Names() {
					flags[manual.Dashed(name)] = true
				}
			}
		}
	}
	for foreign, list := range foreignFlags {
		for _, own := range list {
			if own[0] == '-' && !flags[own] {
				t.Errorf("%s: no command has %s", foreign, own)
			}
		}
	}
}
