package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// measureLittle makes measurements short: the tests do not depend on their results.
func measureLittle(t *testing.T) {
	usual := autoMeter
	t.Cleanup(func() { autoMeter = usual })
	autoMeter.Time, autoMeter.Memory = time.Millisecond, 1<<20
}

// TestAuto: the note names flags that give the same file, byte for byte.
func TestAuto(t *testing.T) {
	measureLittle(t)
	model, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	found, named := filepath.Join(dir, "auto"), filepath.Join(dir, "named")
	code, said := inPlace("convert", model, "--golden", "none", "--layout", "auto", "--head", "auto", "-o", found)
	if code != 0 {
		t.Fatal(said)
	}
	flags := regexp.MustCompile(`--(layout|head) (\S+) makes the same file`).FindAllStringSubmatch(said, -1)
	if len(flags) != 2 {
		t.Fatalf("notes about layout and head: %q", said)
	}
	again := []string{"convert", model, "--golden", "none", "-o", named}
	for _, f := range flags {
		again = append(again, "--"+f[1], f[2])
	}
	if code, said := inPlace(again...); code != 0 {
		t.Fatal(said)
	}
	a, _ := os.ReadFile(found)
	b, err := os.ReadFile(named)
	if err != nil || len(a) == 0 || !bytes.Equal(a, b) {
		t.Errorf("%v: %d and %d bytes, which differ", err, len(a), len(b))
	}
}

// TestAutoHeadAlone: where --include or a rule leaves one form of the head, auto takes that, and says why.
func TestAutoHeadAlone(t *testing.T) {
	measureLittle(t)
	model, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	recipe := filepath.Join(dir, "recipe")
	write(t, recipe, "rules: [{match: model.embed_tokens.weight, quant: int8}]")
	for _, c := range []struct{ flag, value, why string }{
		{"--include", "*q_proj*", `"lm_head.screen", which --include leaves out`},
		{"--recipe", recipe, `"model.embed_tokens.weight" has codes (int8)`},
	} {
		files := map[string]string{}
		for _, head := range []string{"auto", "bf16"} {
			out := filepath.Join(t.TempDir(), "out")
			code, said := inPlace("convert", model, "--golden", "none", "--head", head, c.flag, c.value, "-o", out)
			told := strings.Contains(said, "head bf16, the only one for auto here") && strings.Contains(said, c.why)
			if code != 0 || told != (head == "auto") {
				t.Errorf("%s %s: exit %d, %s", head, c.value, code, said)
			}
			data, _ := os.ReadFile(out)
			files[head] = string(data)
		}
		if files["auto"] == "" || files["auto"] != files["bf16"] {
			t.Errorf("%s: %d and %d bytes, which differ", c.value, len(files["auto"]), len(files["bf16"]))
		}
		_, said := inPlace("convert", model, "--dry-run", "--head", "auto", "--layout", "auto", c.flag, c.value)
		if !strings.Contains(said, "the only one") || !strings.Contains(said, "layout ") ||
			strings.Contains(said, "--head bf16 makes") {
			t.Errorf("with a layout: %s", said)
		}
	}
}

// TestAutoHeadAloneBudget: the only head is that of the file too where a budget would choose one, whether or not the
// budget could make codes of the embedding.
func TestAutoHeadAloneBudget(t *testing.T) {
	measureLittle(t)
	args := []string{"convert", shared.Testdata(t, "tiny-bitnet"), "--dry-run", "--head", "auto", "--calibrate",
		beginning(t), "--size", "9.8MB", "--include", "*layers.0.mlp.*"}
	for _, flags := range [][]string{nil, {"--include", "model.embed_tokens.weight"}} {
		code, said := inPlace(append(args, flags...)...)
		if code != 0 || !strings.Contains(said, "head bf16, the only one for auto here") ||
			strings.Contains(said, "; model.embed_tokens.weight ") {
			t.Errorf("%v: exit %d, %s", flags, code, said)
		}
	}
}

// TestAutoMeasures: what is not asked for, or cannot be chosen, is not measured.
func TestAutoMeasures(t *testing.T) {
	measureLittle(t)
	autoMeter.Time = -1 // refused by what measures
	args := []string{"convert", shared.Testdata(t, "tiny-bitnet"), "--dry-run"}
	for _, c := range []struct {
		flags    []string
		measures bool
	}{
		{[]string{"--head", "auto"}, true},
		{[]string{"--layout", "auto"}, true},
		{[]string{"--head", "auto", "--include", "*q_proj*"}, false},
		{[]string{"--layout", "auto", "--quant", "none"}, false},
	} {
		code, said := inPlace(append(args, c.flags...)...)
		nothing := !c.measures && c.flags[0] == "--layout"
		if (code != 0) != c.measures || strings.Contains(said, "--layout auto had nothing to measure") != nothing {
			t.Errorf("%v: exit %d, %s", c.flags, code, said)
		}
	}
}

// TestAutoCalibrated: the head is measured whatever --calibrate chooses, a size included.
func TestAutoCalibrated(t *testing.T) {
	measureLittle(t)
	args := []string{"convert", shared.Testdata(t, "tiny-bitnet"), "--dry-run", "--head", "auto", "--calibrate",
		beginning(t)}
	for _, flags := range [][]string{
		{"--size", "9.8MB", "--include", "*layers.0.mlp.*", "--include", "lm_head.screen"}, // few layers to measure
		{"--quant", "int4", "--scale", "group:32", "--allow-lossy"},
	} {
		code, said := inPlace(append(args, flags...)...)
		if code != 0 || !strings.Contains(said, "the fastest on this machine for one token") {
			t.Errorf("%v: exit %d, %s", flags, code, said)
		}
	}
}

// TestAutoRefused: choices on which several runs must agree are not measured, and parameters of a specific layout are
// refused.
func TestAutoRefused(t *testing.T) {
	model, out := shared.Testdata(t, "tiny-bitnet"), filepath.Join(t.TempDir(), "out")
	for _, flags := range [][]string{{"--part", "1/2"}, {"--resume"}, {"--param", "bm=64"},
		{"--size", "5MB", "--calibrate", tomSawyer}} {
		code, said := inPlace(append([]string{"convert", model, "--layout", "auto", "-o", out}, flags...)...)
		if code != 2 || !strings.Contains(said, "--layout") && !strings.Contains(said, "--param") {
			t.Errorf("%v: exit %d, %q", flags, code, said)
		}
	}
}

// TestBenchRecommend: the choices as a table and as JSON; weights alone have no head.
func TestBenchRecommend(t *testing.T) {
	measureLittle(t)
	model := shared.Testdata(t, "tiny-bitnet")
	_, said := inPlace("bench", "recommend", model, "--time", "1ms", "--max-spread", "10000")
	for _, want := range []string{"layout vnni4i ", "head screen", "\nRecommended: --layout "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	_, said = inPlace("bench", "recommend", model, "--time", "1ms", "--max-spread", "10000", "--json")
	if !strings.Contains(said, `"schema": "lowpack.bench.recommend/1"`) {
		t.Error(said)
	}
}
