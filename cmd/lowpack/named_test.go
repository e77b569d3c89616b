package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// damaged makes unusable files and directories, and returns their paths.
func damaged(t *testing.T, model, packed string) []string {
	t.Helper()
	dir := t.TempDir()
	whole, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	list := []string{
		filepath.Join(dir, "absent"), filepath.Join(dir, "absent.safetensors"), t.TempDir(),
		write(filepath.Join(dir, "empty"), ""), write(filepath.Join(dir, "cut.safetensors"), string(whole[:3000])),
		write(filepath.Join(dir, "noise"), "\x9f\x03\x88\xc1\x5e\x01\x70\xfa\x11\x00"),
		write(filepath.Join(dir, "flipped"),
			string(flipped)),
	}
	for name, text := range map[string]string{
		"config.json":            `{"architectures":["BitNetForCausalLM"],"hidden_size":7`,
		"tokenizer.json":         `{"model":{"type":"BPE","vocab":{"a":0},"merges":["q q"]}}`,
		"generation_config.json": `{"temperature":"x"}`, "model.safetensors": string(whole[:2000]),
	} {
		checkpoint := filepath.Join(dir, "bad-"+name)
		if err := os.CopyFS(checkpoint, os.DirFS(model)); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(checkpoint, name), text)
		list = append(list, checkpoint)
	}
	return list
}

// TestErrorsNameTheFile gives every command unusable files, in every place for a file: the error names the file as the
// user typed it, exactly once.
func TestErrorsNameTheFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	model, good := small(t)
	out, text := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("Once upon a time"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := []string{
		"convert FILE -o OUT", "convert MODEL --recipe FILE -o OUT", "inspect FILE", "verify FILE",
		"verify GOOD --level source --source FILE",
		"verify GOOD --level digest --provenance FILE", "run FILE -p x -n 1", "run GOOD --file FILE -n 1",
		"run GOOD -p x --chat --chat-template FILE",
		"tokenize FILE -p x", "tokenize GOOD --file FILE", "repack FILE --layout i2 -o OUT", "unpack FILE -o OUT",
		"merge FILE -o OUT",
		"bench FILE --prompt 8 --generate 1", "bench chart FILE", "eval FILE --text TEXT",
		"eval GOOD --against FILE --text TEXT", "eval GOOD --text FILE --tokens 8",
		"export FILE --to gguf -o OUT", "export FILE --to onnx -o OUT", "serve FILE --port 0", "batch GOOD FILE -o OUT",
		"pack --layout i2 --in FILE -o OUT", "sign GOOD --key FILE -o OUT",
		"sign GOOD --key PRIVATE --certificate FILE -o OUT", "sign GOOD --key PRIVATE --provenance FILE -o OUT",
		"verify GOOD --key FILE", "verify GOOD --certificate FILE", "verify GOOD --key PUBLIC --signature FILE",
	}
	private, public := keyPair(t, 1)
	failures := 0
	for _, file := range damaged(t, model, good) {
		for _, line := range commands {
			if strings.HasSuffix(file, "flipped") &&
				(strings.HasPrefix(line, "serve") || strings.HasPrefix(line, "bench")) {
				continue // a bit flip that only verify detects: one command does not end, the other is slow
			}
			if strings.HasPrefix(line, "serve") && isModelFolder(file) {
				continue // it is served
			}
			if strings.Contains(line, "--chat-template") &&
				slices.Contains([]string{"empty", "cut.safetensors", "flipped"}, filepath.Base(file)) {
				continue // a text is a template that renders itself: the conversation fails
			}
			words := strings.NewReplacer("FILE", file, "MODEL", model, "GOOD", good, "OUT", out, "TEXT", text,
				"PRIVATE", private, "PUBLIC", public)
			code, said := inPlace(strings.Fields(words.Replace(line))...)
			os.RemoveAll(out)
			if code == 0 {
				continue
			}
			failures++
			twice := regexp.MustCompile(regexp.QuoteMeta(file) + `: (.*: )?` + regexp.QuoteMeta(file) + `\b`)
			if !strings.Contains(said, file) || twice.MatchString(said) || strings.Contains(said, "EOF") {
				t.Errorf("%s %s: exit code %d\n%s", line, filepath.Base(file), code, said)
			}
		}
	}
	if failures < 100 {
		t.Errorf("%d failures: most of these files should be refused", failures)
	}
}
