package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// inPlace runs a command in this process.
func inPlace(args ...string) (code int, text string) {
	var out bytes.Buffer
	code = Main(append([]string{"lowpack"}, args...), strings.NewReader(""), &out, &out)
	return code, out.String()
}

// others are files of other kinds, with the words by which every command identifies them.
var others = map[string]string{
	"": "the file is empty",
	"<!DOCTYPE html>\n<html><body>Sign in</body></html>": "an HTML page",
	"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9085657\n": "a Git LFS pointer, which stands " +
		"for a file of 9085657 bytes",
	"GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00": "a GGUF model: name the file itself",
	"PK\x03\x04\x00\x00\x08\x08" + strings.Repeat("\x00", 18) +
		"\x10\x00\x00\x00archive/data.pkl": "a PyTorch archive of Python pickles",
	"PK\x03\x04\x00\x00\x08\x08" + strings.Repeat("\x00", 18) + "\x05\x00\x00\x00a.txt": "a zip archive",
	"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.":                         "one of Python's pickles",
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x00\x00":                                  "gzip data",
	"\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x00":                                         "an ONNX model",
}

// weightsOnly are files that are identified only if they are in the place of weights.
var weightsOnly = map[string]string{
	"{\n  \"weight_map\": {}\n}\n":                 "JSON text, not weights",
	"\x00\x01\x00\x00\x00\x00\x00\x00{\"a\":":      "header of 256 bytes in a file of 13: truncated",
	"\x40\x00\x00\x00\x00\x00\x00\x00" + cutHeader: "the data ends 4 bytes early: the file is truncated",
}

const cutHeader = `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}           `

// TestOtherKinds puts files of other kinds where weights, or the texts of a model, are expected: every command
// identifies them.
func TestOtherKinds(t *testing.T) {
	_, good := small(t)
	config, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []map[string]string{others, weightsOnly} {
		for content, words := range group {
			dir, bin, texts := t.TempDir(), t.TempDir(), t.TempDir()
			for path, text := range map[string]string{
				filepath.Join(dir, "config.json"): string(config), filepath.Join(dir, "model.safetensors"): content,
				filepath.Join(bin, "config.json"): string(config), filepath.Join(bin, "pytorch_model.bin"): content,
				filepath.Join(texts, "config.json"): content, filepath.Join(texts, "tokenizer.json"): content,
			} {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file, target := filepath.Join(dir, "model.safetensors"), filepath.Join(t.TempDir(), "out")
			commands := [][]string{
				{"convert", dir, "-o", target}, {"inspect", dir}, {"run", dir, "-p", "x"},
				{"verify", good, "--source", dir},
				{"convert", file, "-o", target}, {"inspect", file}, {"run", file, "-p", "x"}, {"verify", file},
				{"verify", good,
					"--source", file},
				{"tokenize", file, "-p", "x"}, {"repack", file, "--layout", "i2", "-o", target},
				{"unpack", file, "-o", target},
				{"bench", file},
				{"convert", bin, "-o", target}, {"inspect", bin}, {"run", bin, "-p", "x"},
				{"convert", filepath.Join(bin, "pytorch_model.bin"), "-o", target}, {"inspect",
					filepath.Join(bin, "pytorch_model.bin")},
			}
			if _, everywhere := others[content]; everywhere {
				commands = append(commands, []string{"tokenize", texts, "-p", "x"},
					[]string{"tokenize", filepath.Join(texts, "tokenizer.json"), "-p", "x"})
			} else if strings.Contains(words, "truncated") { // only a complete header tells how long the file should be
				commands = commands[:13]
			}
			mustSay(t, words, commands)
		}
	}
}

// mustSay demands that the commands fail in these words.
func mustSay(t *testing.T, words string, commands [][]string) {
	t.Helper()
	for _, args := range commands {
		if code, out := inPlace(args...); code != 1 || !strings.Contains(out, words) {
			t.Errorf("%q: exit code %d, want 1 and %q\n%s", args, code, words, out)
		}
	}
}

// TestUnfinishedDownload: errors name a dangling link of a download cache, wherever it lies, and its target.
func TestUnfinishedDownload(t *testing.T) {
	for _, name := range []string{"model.safetensors", "config.json", "tokenizer.json", "only.safetensors",
		"model-00001-of-00002.safetensors", "pytorch_model.bin"} {
		dir, target := t.TempDir(), filepath.Join(t.TempDir(), "out")
		if strings.Contains(name, "-of-") {
			index := fmt.Sprintf(`{"weight_map":{"a":%q}}`, name)
			err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index), 0o644)
			if err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, name)
		if err := os.Symlink("../../blobs/0ab1", path); err != nil {
			t.Skip(err)
		}
		commands := [][]string{{"convert", dir, "-o", target}, {"inspect", dir}, {"run", dir, "-p", "x"},
			{"convert", path, "-o", target}, {"inspect", path}, {"run", path, "-p", "x"}, {"tokenize", path, "-p", "x"},
			{"verify", path}}
		if strings.HasSuffix(name, ".json") {
			commands = append(commands, []string{"tokenize", dir, "-p", "x"})
		}
		mustSay(t, "unfinished download: "+path+" leads to ../../blobs/0ab1", commands)
	}
}

// TestCacheRoot: the folder of a model in the download cache is not the model; its snapshot is.
func TestCacheRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "models--acme--tiny")
	snapshot := filepath.Join(root, "snapshots", "0123456789abcdef")
	if err := os.MkdirAll(snapshot, 0o755); err != nil {
		t.Fatal(err)
	}
	mustSay(t, "use its snapshot, "+snapshot, [][]string{
		{"convert", root, "-o", filepath.Join(t.TempDir(), "out")}, {"inspect", root}, {"run", root, "-p", "x"},
		{"tokenize",
			root, "-p", "x"},
	})
}

// TestWithoutConfig: weights in a directory without config.json are not to be quantized unasked, for a reason that the
// user can mend.
func TestWithoutConfig(t *testing.T) {
	dir := t.TempDir()
	weights, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/model.safetensors"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out := inPlace("convert", dir, "--quant", "absmean", "-o", filepath.Join(t.TempDir(), "out"))
	if code != 1 || !strings.Contains(out, "there is no config.json") || strings.Contains(out, "--allow-lossy") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestForeignTemplates: a web page and a pointer are chat templates to Jinja, which write themselves.
func TestForeignTemplates(t *testing.T) {
	for content, words := range others {
		if content == "" {
			continue
		}
		dir, packed := t.TempDir(), filepath.Join(t.TempDir(), "packed")
		if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
			t.Fatal(err)
		}
		template := filepath.Join(dir, "chat_template.jinja")
		if err := os.WriteFile(template, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out := inPlace("convert", dir, "--golden", "none", "-o", packed); code != 0 ||
			!strings.Contains(out, words) {
			t.Errorf("convert: exit code %d, want a note of %q\n%s", code, words, out)
		}
		mustSay(t, words, [][]string{{"run", packed, "--chat", "-p", "x"},
			{"run", packed, "--chat", "--chat-template", template, "-p", "x"}})
	}
}
