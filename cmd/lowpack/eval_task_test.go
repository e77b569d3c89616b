package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/eval"
)

// tomSawyer is a text that the repository has.
const tomSawyer = "../../testdata/tom-sawyer/chapters-1-8.txt"

// beginning writes the beginning of that text to a file, for fewer questions.
func beginning(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(tomSawyer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "text")
	write(t, path, string(text[:12_000]))
	return path
}

func TestEvalTask(t *testing.T) {
	plain, head, text := packTiny(t), packTiny(t, "--head", "int4"), beginning(t)
	for task, want := range map[string]struct {
		begins     []string
		norm, word bool
	}{
		"last-word": {[]string{"questions ", "acc ", "perplexity of the word ", "other's acc ", "other's perplexity ",
			"difference of acc ", "perplexity ratio ", "same answer "}, false, true},
		"cloze": {[]string{"questions ", "acc ", "acc_norm ", "other's acc ", "other's acc_norm ", "difference of acc ",
			"difference of acc_norm ", "same answer "}, true, false},
	} {
		questions := filepath.Join(t.TempDir(), "questions")
		args := []string{head, "--against", plain, "--task", task, "--file", text}
		stdout, stderr, code := runApp(t, evalCommand(), append(args, "--questions", questions)...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if code != 0 || len(lines) != len(want.begins) || !strings.HasSuffix(lines[0], "begin-of-text token") {
			t.Fatalf("%s: code %d: %s%s", task, code, stdout, stderr)
		}
		for i, begin := range want.begins {
			if !strings.HasPrefix(lines[i], begin) {
				t.Errorf("%s: %q does not begin with %q", task, lines[i], begin)
			}
		}
		first, _, _ := runApp(t, evalCommand(), append(args, "--json", "--threads", "1")...)
		stdout, stderr, code = runApp(t, evalCommand(), append(args, "--json", "--threads", "2")...)
		var r eval.TaskResult
		if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || stdout != first {
			t.Fatalf("%s: code %d, %v: %s%s%s", task, code, err, stderr, first, stdout)
		}
		written, err := os.ReadFile(questions)
		if err != nil || bytes.Count(written, []byte("\n")) != r.Questions || len(r.Answers) != r.Questions ||
			r.Questions == 0 || !r.BeginOfText {
			t.Errorf("%s: %d questions, %v: %s", task, r.Questions, err, written)
		}
		if (r.AccNorm != nil) != want.norm || (r.Perplexity != nil) != want.word || r.Against == nil {
			t.Errorf("%s: %+v", task, r)
		}
	}
	// The other model is asked itself: its KV cache stays what it is.
	stdout, stderr, code := runApp(t, evalCommand(), plain, "--against", plain, "--task", "last-word", "--file", text,
		"--bos", "no")
	if code != 0 || !strings.Contains(stdout, "+0.00 ± 0.00 points") || !strings.Contains(stdout, "100.00 ± 0.00 %") ||
		!strings.Contains(stdout, "1.0000 ± 0.0000") || strings.Contains(stdout, "begin-of-text") {
		t.Errorf("against itself: code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = runApp(t, evalCommand(), plain, "--against", plain, "--task", "last-word", "--file", text,
		"--kv-cache-type", "i8")
	if code != 0 || strings.Contains(stdout, "1.0000 ± 0.0000") {
		t.Errorf("with a cache in i8: code %d: %s%s", code, stdout, stderr)
	}
}

func TestEvalTaskRefuses(t *testing.T) {
	file, text, short := packTiny(t), beginning(t), filepath.Join(t.TempDir(), "short")
	write(t, short, "One word.")
	for _, c := range []struct {
		args string
		code int
		word string
	}{
		{"FILE --task guess --file TEXT", 2, "must be one of last-word, cloze"},
		{"FILE --task cloze --file SHORT", 1, "short: "},
		{"FILE --task cloze --file SHORT", 1, "too short for a question"},
		{"FILE --task last-word -p word", 1, "too short for a question"},
		{"FILE --questions Q --file TEXT", 2, "--questions needs --task"},
		{"FILE --task cloze --file TEXT --window 8", 2, "--window cannot be combined with --task"},
		{"FILE --task cloze --file TEXT --stride 8", 2, "--stride cannot be combined with --task"},
		{"FILE --task cloze --file TEXT --tokens 8", 2, "--tokens cannot be combined with --task"},
		{"FILE --task cloze --file TEXT --svg a.svg", 2, "--svg cannot be combined with --task"},
		{"SHORT --task cloze --file TEXT", 1, "short"},
		{"FILE --task cloze --file TEXT --against SHORT", 1, "short"},
		{"FILE --task cloze --file TEXT --questions FILE/q", 3, "not a directory"},
	} {
		args := strings.Fields(strings.NewReplacer("FILE", file, "TEXT", text, "SHORT", short).Replace(c.args))
		if stdout, stderr, code := runApp(t, evalCommand(), args...); code != c.code ||
			!strings.Contains(stderr, c.word) || stdout != "" {
			t.Errorf("%s: code %d, want %d with %q: %s%s", c.args, code, c.code, c.word, stdout, stderr)
		}
	}
}
