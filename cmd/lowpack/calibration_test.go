package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// writeTexts writes files below a new folder.
func writeTexts(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666))
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func reading(path string) ([]convert.Document, error) {
	c := cli.NewContext(&cli.App{Reader: strings.NewReader("typed")}, nil, nil)
	c.Context = context.Background()
	return documentsOf(c, path)
}

// TestDocuments: a file is one text, a line of a .jsonl is a text or a chat, and a folder is all of these in the order
// of their names.
func TestDocuments(t *testing.T) {
	dir := writeTexts(t, map[string]string{
		"b.txt":    "{\"text\": \"not read as JSON\"}\n",
		"a/c.md":   "# c",
		"a/d.bin":  "\xff",
		"e.jsonl":  `{"text": "one", "source": 5}` + "\n\n" + `{"messages": [{"role": "user", "content": "two"}]}` + "\r\n",
		"folder.x": "skipped",
	})
	path := func(name string) string { return filepath.Join(dir, name) }
	lines := []convert.Document{
		{Text: "one", Origin: path("e.jsonl") + ", line 1"},
		{Messages: []chat.Message{{Role: "user", Content: "two"}}, Origin: path("e.jsonl") + ", line 3"},
	}
	text := convert.Document{Text: "{\"text\": \"not read as JSON\"}\n", Origin: path("b.txt")}
	all := append([]convert.Document{{Text: "# c", Origin: path("a/c.md")}, text}, lines...)
	for name, want := range map[string][]convert.Document{"b.txt": {text}, "e.jsonl": lines, ".": all} {
		if got, err := reading(path(name)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if got, err := reading("-"); err != nil || len(got) != 1 || got[0].Text != "typed" {
		t.Errorf("standard input: %+v, %v", got, err)
	}
}

// TestDocumentsRefused: errors name file, line and rule; what a message has beside role and content is not dropped.
func TestDocumentsRefused(t *testing.T) {
	for line, says := range map[string]string{
		``:                                 "has no lines",
		`[]`:                               "line 1: ",
		`{"text": "a"`:                     "line 1: ",
		`{"text": "a", "text": "b"}`:       "line 1: ",
		`{"body": "a"}`:                    `neither "text" nor "messages"`,
		`{"text": "a", "messages": []}`:    `both "text" and "messages"`,
		`{"text": null}`:                   `"text" is not a string`,
		`{"messages": []}`:                 `"messages" is not a list of messages`,
		`{"messages": [{"role": "user"}]}`: "messages[0] is not",
		`{"messages": [{"content": "a"}]}`: "messages[0] is not",
		`{"messages": "hello"}`:            `"messages" is not a list of messages`,
		`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": []}]}`: "" +
			"messages[1] is not",
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}`: "messages[0] is not",
	} {
		path := filepath.Join(writeTexts(t, map[string]string{"t.jsonl": line}), "t.jsonl")
		if _, err := reading(path); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q", line, err, says)
		}
	}
	none := writeTexts(t, map[string]string{"a.pdf": "x"})
	if _, err := reading(none); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), none) {
		t.Errorf("a folder without texts: %v", err)
	}
	half := strings.Repeat("x", maxText/2+1)
	if _, err := reading(writeTexts(t, map[string]string{"a.txt": half, "b.txt": half})); err == nil ||
		!strings.Contains(err.Error(), textLimit) {
		t.Errorf("texts of more than %s: %v", textLimit, err)
	}
}

// TestCalibrateSelf: self stands for a text that the model writes, ./self for a file of this name, which is no input of
// the former.
func TestCalibrateSelf(t *testing.T) {
	model := shared.Testdata(t, "tiny-bitnet")
	t.Chdir(writeTexts(t, map[string]string{"self": "Once upon a time."}))
	line := []string{"convert", model, "--quant", "int4", "--scale", "group:32", "--allow-lossy", "--dry-run", "--json"}
	stdout, stderr, code := runApp(t, convertCommand(), append(line[1:], "--calibrate", "self")...)
	if code != 0 || !strings.Contains(stdout, `"self_seed": 1`) {
		t.Errorf("self: exit code %d: %s", code, stderr)
	}
	if code, said := inPlace(append(line, "--calibrate", "./self")...); code == 0 ||
		!strings.Contains(said, "at least 256 are needed") {
		t.Errorf("./self: exit code %d: %s", code, said)
	}
	if _, stderr, code = runApp(t, convertCommand(), append(line[1:], "--method", "gptq")...); code != 2 ||
		!strings.Contains(stderr, "--calibrate TEXT") {
		t.Errorf("a method without a text: exit code %d: %s", code, stderr)
	}
}
