package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// serveTiny is a hub with the bundled model as acme/tiny; the user's caches are empty.
func serveTiny(t *testing.T) (cache string) {
	t.Helper()
	dir := shared.Testdata(t, "tiny-bitnet")
	commit := strings.Repeat("0123456789", 4)
	var siblings []map[string]any
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		siblings = append(siblings, map[string]any{"rfilename": e.Name(),
			"lfs": map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(data)), "size": len(data)}})
	}
	files := http.StripPrefix("/acme/tiny/resolve/"+commit+"/", http.FileServer(http.Dir(dir)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/models/acme/tiny/revision/main":
			json.NewEncoder(w).Encode(map[string]any{"id": "acme/tiny", "sha": commit, "siblings": siblings})
		case strings.HasPrefix(r.URL.Path, "/acme/tiny/"):
			files.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	cache = t.TempDir()
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("HF_HOME", filepath.Join(cache, "hf"))
	for _, key := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE",
		"TRANSFORMERS_OFFLINE"} {
		t.Setenv(key, "")
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	return cache
}

// mainOf runs a command line in this process.
func mainOf(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(append([]string{"lowpack"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestHub: the name of a model on the hub is accepted in place of a checkpoint.
func TestHub(t *testing.T) {
	cache := serveTiny(t)
	code, out, text := mainOf("pull", "acme/tiny")
	if code != 0 || !strings.HasPrefix(out, cache) {
		t.Fatal(code, out, text)
	}
	if _, err := os.Stat(filepath.Join(strings.TrimSpace(out), "config.json")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(strings.TrimSpace(out), "README.md")); err == nil {
		t.Error("README.md was downloaded")
	}
	file := filepath.Join(cache, "tiny.safetensors")
	if code, _, text := mainOf("convert", "acme/tiny", "--golden", "none", "-o", file); code != 0 {
		t.Fatal(text)
	}
	if code, out, text := mainOf("verify", file, "--source", "acme/tiny"); code != 0 {
		t.Error(out, text)
	}
	if code, out, text := mainOf("inspect", "acme/tiny"); code != 0 ||
		!strings.Contains(out, "bitnet (BitNetForCausalLM)") {
		t.Error(out, text)
	}
	if code, _, text := mainOf("convert", "acme/none", "-o", filepath.Join(cache, "none")); code != 1 ||
		!strings.Contains(text, "no such model") || !strings.Contains(text, "no file or folder acme/none") {
		t.Error(code, text)
	}
	if code, _, text := mainOf("pull", "tiny"); code != 2 || !strings.Contains(text, "ORG/NAME") {
		t.Error(code, text)
	}
}

// TestRunCheckpoint: run converts a checkpoint once, prints the path, and converts it again after a change.
func TestRunCheckpoint(t *testing.T) {
	cache := serveTiny(t)
	args := []string{"run", "acme/tiny", "-p", "Once upon a time", "-n", "8", "--temperature", "0", "--verbose"}
	code, first, text := mainOf(args...)
	made, _ := filepath.Glob(filepath.Join(cache, "lowpack", "packed", "models--acme--tiny-*.safetensors"))
	if code != 0 || len(made) != 1 || !strings.Contains(text, made[0]) {
		t.Fatal(code, text, made)
	}
	info, err := os.Stat(made[0])
	if err != nil {
		t.Fatal(err)
	}
	code, second, text := mainOf(args...)
	again, err := os.Stat(made[0])
	if code != 0 || err != nil || second != first || !strings.Contains(text, made[0]) ||
		!again.ModTime().Equal(info.ModTime()) {
		t.Error(code, second, text, err)
	}

	dir := filepath.Join(cache, "copy")
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	args[1] = dir
	if code, out, text := mainOf(args...); code != 0 || out != first {
		t.Error(code, out, text)
	}
	config := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, text := mainOf(args...); code != 0 {
		t.Error(text)
	}
	if copies, _ := filepath.Glob(filepath.Join(cache, "lowpack", "packed", "copy-*.safetensors")); len(copies) != 2 {
		t.Errorf("a changed checkpoint: %v", copies)
	}
}
