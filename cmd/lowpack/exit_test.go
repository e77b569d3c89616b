package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestExitCodes: the exit code depends on the kind of failure: usage, input or environment.
func TestExitCodes(t *testing.T) {
	model, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	nowhere := filepath.Join(dir, "missing", "target")
	packed := filepath.Join(dir, "packed")
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{0, []string{"convert", model, "--golden", "none", "-o", packed}, "tensors packed"},
		{1, []string{"convert", filepath.Join(dir, "none"), "-o", packed}, "none"},
		{1, []string{"verify", filepath.Join(model, "config.json")}, "FAIL"},
		{1, []string{"verify", packed, "--source", filepath.Join(dir, "none")}, "none"},
		{2, []string{"convert", model, "--scale", "column", "-o", packed},
			`invalid --scale "column": must be one of tensor, row, group:N`},
		{2, []string{"convert", model, "--scale", "group:0", "-o", packed}, `invalid --scale "group:0"`},
		{2, []string{"bench", "kernls"}, "did you mean kernels?"},
		{2, []string{"quantize", model}, "here it is lowpack convert"},
		{2, []string{"run", "-m", packed}, "unknown flag -m: here it is FILE"},
		{2, []string{"run", packed, "--n-predict", "3"}, "unknown flag --n-predict: here it is --tokens"},
		{2, []string{"run", packed, "--top_k", "3"}, "did you mean --top-k?"},
		{2, []string{"verify", packed, "--ctx-size", "3"}, "unknown flag --ctx-size; see"},
		{0, []string{"tokenize", packed, "Hello."}, ""},
		{2, []string{"tokenize", packed, "Hello.", "-p", "x"}, "cannot be combined"},
		{2, []string{"tokenize", packed, "a", "b"}, "takes only PATH, or PATH and TEXT"},
		{3, []string{"convert", model, "-o", nowhere}, "missing"},
		{3, []string{"convert", model, "--resume", "-o", nowhere}, "missing"},
		{3, []string{"repack", packed, "--layout", "i2", "-o", nowhere}, "missing"},
		{3, []string{"unpack", packed, "-o", nowhere}, "missing"},
		{3, []string{"synth", "--like", "bitnet-2b4t", "--mini", "-o", nowhere}, "missing"},
		{3, []string{"run", packed, "-p", "a", "-n", "1", "--logits", nowhere}, "missing"},
	} {
		if code, out := inPlace(c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.says, out)
		}
	}
}

// TestBadValues: a value that a flag cannot have is wrong usage, in every command, before anything is read.
func TestBadValues(t *testing.T) {
	model, out := shared.Testdata(t, "tiny-bitnet"), filepath.Join(t.TempDir(), "out")
	packed := tinymodel.Path(t)
	run := []string{"run", packed, "-p", "x", "-n", "1"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(run, "--temperature", "nan"), "--temperature NaN: must be a finite number, 0 or more"},
		{append(run, "--temperature", "-1"), "--temperature"},
		{append(run, "--temperature", "1e39"), "--temperature"},
		{append(run, "--temperature", "inf"), "--temperature"},
		{append(run, "--top-p", "2"), "--top-p 2: must be between 0 and 1"},
		{append(run, "--top-p", "nan"), "--top-p"},
		{append(run, "--min-p", "-0.1"), "--min-p"},
		{append(run, "--min-p", "1.5"), "--min-p"},
		{append(run, "--speculate", "-1"), "--speculate"},
		{append(run, "--speculate", "16"), "--speculate"},
		{append(run, "--speculate", "aut"), "did you mean auto"},
		{append(run, "--speculate", "off", "--draft", packed), "--draft"},
		{append(run, "--top-k", "-1"), "--top-k"},
		{append(run, "--repetition-penalty", "-1"), "--repetition-penalty -1: must be a finite number above 0"},
		{append(run, "--repetition-penalty", "0"), "--repetition-penalty"},
		{append(run, "--repetition-penalty", "nan"), "--repetition-penalty"},
		{append(run, "--stop", ""), `invalid value "" for --stop`},
		{append(run, "-n", "-2"), "--tokens -2"},
		{append(run, "--seed", "-1"), "--seed: want an integer of 0 or more"},
		{append(run, "--context", "1000000000"), "--context 1000000000"},
		{append(run, "--context", "100000"), "256 positions"},
		{append(run, "--kv-cache-type", "f8"), "must be one of f32, f16, i8, i4"},
		{append(run, "--file", packed), "-p and --file cannot be combined"},
		{append(run, "--system", "Be kind."), "--system needs --chat"},
		{append(run, "--chat", "--logits", out), "--logits and --chat"},
		{append(run, "--logits", "-"), `invalid value "-" for --logits`},
		{[]string{"convert", model, "-o", out, "--layout", "blocked", "--param", "bm=0"}, "bm = 0"},
		{[]string{"convert", model, "-o", out, "--param", "nosuch=1"}, `no parameter "nosuch"`},
		{[]string{"convert", model, "-o", "-"}, `invalid value "-"`},
		{[]string{"convert", "", "-o", out}, `invalid value "" for CHECKPOINT`},
		{[]string{"convert", model, "-o", ""}, `invalid value "" for --output`},
		{[]string{"convert", model, "-o", out, "--include", "["}, "--include"},
		{[]string{"repack", packed, "--layout", "tl2", "--param", "BM=7", "-o", out}, "BM = 7"},
		{[]string{"pack", "--layout", "tl2", "--param", "BM=7", "--in", packed, "-o", out}, "BM = 7"},
		{[]string{"verify", packed, "--level", "file", "--provenance", packed},
			"--provenance cannot be combined with --level file"},
		{[]string{"verify", packed, "--level", "codes", "--source", model}, "--source cannot be combined"},
		{[]string{"verify", packed, "--level", "source"}, "needs --source"},
		{[]string{"eval", packed, "--text", model + "/README.md", "--window", "100000"}, "256 positions"},
		{[]string{"eval", packed, "--text", model + "/README.md", "--window", "1"}, "window"},
		{[]string{"eval", packed, "--text", model + "/README.md", "--window", "8", "--stride", "9"}, "stride"},
		{[]string{"bench", packed, "--max-spread", "nan"}, "--max-spread"},
		{[]string{"bench", "machine", "--time", "-1s"}, "--time"},
		{[]string{"synth", "--like", "bitnet-2b4t", "-o", out, "--shard-size", "0"}, "--shard-size"},
	} {
		if code, out := inPlace(c.args...); code != 2 || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d, want 2 and %q\n%s", c.args, code, c.says, out)
		}
	}
	t.Setenv("LOWPACK_ISA", "mmx")
	for _, args := range [][]string{{"version"}, run, {"verify", packed}, {"layouts"}, {"convert", model, "-o", out}} {
		if o := command(t, args...); o.code != 2 || !strings.Contains(o.out, "LOWPACK_ISA=mmx") {
			t.Errorf("%q: exit code %d\n%s", args, o.code, o.out)
		}
	}
}

// TestTargets: a target that no file can replace is a failure of the environment, reported before the model is opened.
func TestTargets(t *testing.T) {
	dir := t.TempDir()
	file, model := filepath.Join(dir, "file"), filepath.Join(dir, "no model")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{os.DevNull, dir, filepath.Join(file, "x"),
		filepath.Join(dir, strings.Repeat("n", 256))} {
		for _, args := range [][]string{
			{"convert", model, "-o", target},
			{"convert", model, "-o", filepath.Join(dir, "m"), "--report", target + ".html", "--provenance", target},
			{"repack", model, "--layout", "i2s", "-o", target},
			{"verify", model, "--report", "json:" + target},
			{"run", model, "-p", "x", "--logits", target},
			{"bench", "machine", "--svg", target},
		} {
			if code, out := inPlace(args...); code != 3 {
				t.Errorf("%q: exit code %d\n%s", args, code, out)
			}
		}
	}
}
