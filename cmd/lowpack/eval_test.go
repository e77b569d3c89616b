package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// packTiny converts the bundled model with more flags than usual.
func packTiny(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.safetensors")
	args := append([]string{shared.Testdata(t, "tiny-bitnet-packed"), "-o", path, "--golden", "none"}, flags...)
	if _, stderr, code := runApp(t, convertCommand(), args...); code != 0 {
		t.Fatalf("convert: code %d: %s", code, stderr)
	}
	return path
}

func TestEval(t *testing.T) {
	var heldout struct{ Text string }
	data, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet-golden/heldout_ids.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &heldout); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(heldout.Text), 0o666); err != nil {
		t.Fatal(err)
	}
	plain, head := packTiny(t), packTiny(t, "--head", "int8")

	stdout, stderr, code := runApp(t, evalCommand(), plain, "--text", text, "--tokens", "512")
	if code != 0 || !strings.Contains(stdout, "perplexity") ||
		!strings.Contains(stdout,
			"512 scored, in 2 windows of 256, one every 256, each after the begin-of-text token") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = runApp(t, evalCommand(), plain, "--text", text, "--tokens", "512", "--bos", "no")
	if code != 0 || !strings.Contains(stdout, "510 scored, in 2 windows of 256, one every 256\n") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	stdout, stderr, code = runApp(t, evalCommand(), plain, "--text", text, "--tokens", "64", "--against",
		shared.Testdata(t, "tiny-bitnet-packed"))
	if code != 0 || !strings.Contains(stdout, "1.00000 ± 0.00000") || !strings.Contains(stdout, "100.00 ± 0.00 %") {
		t.Errorf("against the checkpoint: code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = runApp(t, evalCommand(), plain, "--text", text, "--tokens", "1", "--against", plain)
	if code != 0 || strings.Count(stdout, " ± –") != 4 || strings.Count(stdout, "±") != 4 {
		t.Errorf("one token has no deviation: code %d: %s%s", code, stdout, stderr)
	}
	// Only the KV cache of FILE has another type.
	stdout, stderr, code = runApp(t, evalCommand(), plain, "--text", text, "--tokens", "64", "--against", plain,
		"--kv-cache-type", "i8")
	if code != 0 || strings.Contains(stdout, "KL divergence       0 ±") || !strings.Contains(stdout, "KL divergence") {
		t.Errorf("with a cache in i8: code %d: %s%s", code, stdout, stderr)
	}
	svg := filepath.Join(t.TempDir(), "kl.svg")
	stdout, stderr, code = runApp(t, evalCommand(), head, "--against", plain, "--text", text, "--tokens", "300",
		"--window", "64", "--stride", "32", "--svg", svg, "--json")
	var r struct {
		Tokens, Windows int
		Perplexity      float64
		Against         struct {
			KL   float64 `json:"mean_kl"`
			Top1 float64 `json:"top1_agreement"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Tokens != 300 || r.Windows != 9 ||
		r.Perplexity < 2 || r.Against.KL <= 0 || r.Against.Top1 < 0.9 {
		t.Errorf("code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if drawn, err := os.ReadFile(svg); err != nil || !bytes.Contains(drawn, []byte("KL in nats")) {
		t.Errorf("%v: %.200s", err, drawn)
	}
}

func TestEvalRefuses(t *testing.T) {
	file, text := packTiny(t), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		word string
	}{
		{"FILE", 1, "0 tokens"},
		{"FILE -p a --file TEXT", 2, "cannot be combined"},
		{"--text TEXT", 2, "FILE"},
		{"FILE FILE --text TEXT", 2, "only"},
		{"FILE --text TEXT --window -1", 2, "--window -1: must be between"},
		{"FILE --text TEXT", 1, "0 tokens"},
		{"FILE --text FILE --window 1", 2, "window of 1"},
		{"FILE --text FILE --window 300", 2, "256 positions"},
		{"TEXT --text FILE", 1, "empty"},
		{"FILE --text FILE.none", 1, "none"},
		{"FILE --against TEXT --text FILE", 1, "empty"},
		{"FILE --text FILE --bos perhaps", 2, "must be one of"},
	} {
		args := strings.Fields(strings.NewReplacer("FILE", file, "TEXT", text).Replace(c.args))
		if stdout, stderr, code := runApp(t, evalCommand(), args...); code != c.code ||
			!strings.Contains(stderr, c.word) ||
			stdout != "" {
			t.Errorf("%s: code %d, want %d with %q: %s%s", c.args, code, c.code, c.word, stdout, stderr)
		}
	}
}
