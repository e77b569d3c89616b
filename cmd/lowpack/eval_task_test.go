package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/eval"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
	"github.com/lowpack/lowpack/internal/testkit/shared"
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
		"passkey": {[]string{"questions ", "acc ", "perplexity of the key ", "other's acc ", "other's perplexity ",
			"difference of acc ", "perplexity ratio ", "same answer "}, false, true},
		"cloze": {[]string{"questions ", "acc ", "acc_norm ", "other's acc ", "other's acc_norm ", "difference of acc ",
			"difference of acc_norm ", "same answer "}, true, false},
	} {
		list := filepath.Join(t.TempDir(), "questions")
		args := []string{head, "--against", plain, "--task", task, "--file", text}
		stdout, stderr, code := runApp(t, evalCommand(), append(args, "--questions", list)...)
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
		written, err := os.ReadFile(list)
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
	for _, task := range []string{"last-word", "passkey"} {
		alone, _, _ := runApp(t, evalCommand(), plain, "--task", task, "--file", text)
		stdout, stderr, code = runApp(t, evalCommand(), plain, "--against", plain, "--task", task, "--file", text,
			"--kv-cache-type", "i8")
		_, perplexity, _ := strings.Cut(strings.Split(alone, "\n")[2], "  ")
		if code != 0 || strings.Contains(stdout, "1.0000 ± 0.0000") ||
			!regexp.MustCompile(`other's perplexity +`+regexp.QuoteMeta(perplexity)).MatchString(stdout) {
			t.Errorf("%s with a cache in i8: code %d: %s%s, in f32 %s", task, code, stdout, stderr, alone)
		}
	}
}

// TestEvalPasskeyWindow: questions have at most as many tokens as --window says, without which they have those of the
// context that the model was made for.
func TestEvalPasskeyWindow(t *testing.T) {
	file, text := packTiny(t), beginning(t)
	for window, most := range map[string]int{"200": 200, "": 256} {
		list := filepath.Join(t.TempDir(), "questions")
		args := []string{file, "--task", "passkey", "--file", text, "--questions", list}
		if window != "" {
			args = append(args, "--window", window)
		}
		if stdout, stderr, code := runApp(t, evalCommand(), args...); code != 0 {
			t.Fatalf("code %d: %s%s", code, stdout, stderr)
		}
		if n := longest(t, file, list); n > most || n < most*9/10 {
			t.Errorf("the longest question has %d tokens, of at most %d", n, most)
		}
	}
}

// TestEvalPasskeyCancelled: the search for questions, which may be long, ends with the command.
func TestEvalPasskeyCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &subjects{c: &cli.Context{Context: ctx}, list: []subject{{}}}
	if _, err := s.fits(nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEvalPasskeyOther: with --against a model that has another tokenizer, questions are within the window for both.
func TestEvalPasskeyOther(t *testing.T) {
	file, other, text := packTiny(t), packTokenizer(t, halved), beginning(t)
	list := filepath.Join(t.TempDir(), "questions")
	stdout, stderr, code := runApp(t, evalCommand(), file, "--against", other, "--task", "passkey", "--file", text,
		"--window", "120", "--questions", list)
	if code != 0 {
		t.Fatalf("code %d: %s%s", code, stdout, stderr)
	}
	if own, others := longest(t, file, list), longest(t, other, list); own >= others || others > 120 || others < 100 {
		t.Errorf("the longest question has %d tokens, and %d of the other model", own, others)
	}
	_, stderr, code = runApp(t, evalCommand(), file, "--against", other, "--task", "passkey", "--file", text,
		"--window", "300")
	if code != 2 || !strings.Contains(stderr, "made for 256") {
		t.Errorf("a window longer than the model was made for: code %d: %s", code, stderr)
	}
}

// halved leaves out the later half of the merges.
func halved(tokenizer map[string]any) {
	m := tokenizer["model"].(map[string]any)
	merges := m["merges"].([]any)
	m["merges"] = merges[:len(merges)/2]
}

// packTokenizer packs the tiny model with a tokenizer that is changed.
func packTokenizer(t *testing.T, change func(tokenizer map[string]any)) string {
	t.Helper()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "other.safetensors")
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet-packed"))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var tokenizer map[string]any
	if err := json.Unmarshal(data, &tokenizer); err != nil {
		t.Fatal(err)
	}
	change(tokenizer)
	if data, err = json.Marshal(tokenizer); err != nil {
		t.Fatal(err)
	}
	write(t, name, string(data))
	if _, stderr, code := runApp(t, convertCommand(), dir, "-o", path, "--golden", "none"); code != 0 {
		t.Fatalf("convert: code %d: %s", code, stderr)
	}
	return path
}

// longest returns the most tokens that a model reads of a question in a list.
func longest(t *testing.T, file, list string) (most int) {
	t.Helper()
	m, err := lowpack.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	written, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(written)) {
		var q questions.Question
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		ids, err := m.Tokenizer.Encode(q.Context+q.Endings[0], true)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(ids)-1) // the last token is not read
	}
	return most
}

// TestEvalTaskOne: a single question has no error.
func TestEvalTaskOne(t *testing.T) {
	text := strings.Repeat("Nobody in the whole village had ever seen the lantern, of which all spoke. ", 5) +
		"They took the lantern."
	file := packTiny(t)
	stdout, stderr, code := runApp(t, evalCommand(), file, "--against", file, "--task", "last-word", "-p", text)
	if code != 0 || !strings.Contains(stdout, "0.00 ± – %") || !strings.Contains(stdout, "1.0000 ± –\n") ||
		!strings.Contains(stdout, "+0.00 ± – points") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}

func TestDecimals(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0000", 12.34567: "12.3457", 999999.5: "999999.5000", 1e6: "1e+06",
		1.23456e300: "1.235e+300"} {
		if got := decimals(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// TestEvalTaskLong: of a question that is longer than a model can read, the beginning is left out, and a note says so.
func TestEvalTaskLong(t *testing.T) {
	file, text, list := packTiny(t), beginning(t), filepath.Join(t.TempDir(), "questions")
	short, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	for ending, want := range map[int]struct {
		code int
		said string
	}{
		30:  {0, file + " reads at most 256 tokens: the beginning of 1 of "},
		100: {1, "an ending of 304 tokens"},
	} {
		write(t, text, string(short)+"\n\n"+strings.Repeat("字", 350)+"。\n\n"+strings.Repeat("字", ending)+"。\n")
		_, stderr, code := runApp(t, evalCommand(), file, "--task", "cloze", "--file", text, "--questions", list)
		if code != want.code || !strings.Contains(stderr, want.said) {
			t.Errorf("an ending of %d characters: code %d: %s", ending, code, stderr)
		}
		if _, err := os.Stat(list); errors.Is(err, fs.ErrNotExist) == (code == 0) {
			t.Errorf("an ending of %d characters: code %d, and questions: %v", ending, code, err)
		}
		os.Remove(list)
	}
}

func TestEvalTaskRefuses(t *testing.T) {
	file, text, short := packTiny(t), beginning(t), filepath.Join(t.TempDir(), "short")
	write(t, short, "One word.")
	binary := filepath.Join(t.TempDir(), "binary")
	write(t, binary, "One \xff.")
	for _, c := range []struct {
		args string
		code int
		word string
	}{
		{"FILE --task guess --file TEXT", 2, "must be one of last-word, cloze, passkey"},
		{"FILE --task cloze --file SHORT", 1, "short: "},
		{"FILE --task cloze --file SHORT", 1, "has no question of the task"},
		{"FILE --task last-word -p word", 1, "has no question of the task"},
		{"FILE --questions Q --file TEXT", 2, "--questions needs --task"},
		{"FILE --task cloze --file TEXT --window 8", 2, "--window cannot be combined with --task cloze"},
		{"FILE --task passkey --file TEXT --window 8", 1, "a window that holds 5 sentences"},
		{"FILE --task passkey --file TEXT --window 300", 2, "made for 256"},
		{"FILE --task cloze --file TEXT --stride 8", 2, "--stride cannot be combined with --task"},
		{"FILE --task cloze --file TEXT --tokens 8", 2, "--tokens cannot be combined with --task"},
		{"FILE --task cloze --file TEXT --svg a.svg", 2, "--svg cannot be combined with --task"},
		{"FILE --task cloze --file BINARY", 1, "binary: "},
		{"FILE --task cloze --file BINARY", 1, "not UTF-8"},
		{"NONE --task cloze --file BINARY", 1, "not UTF-8"}, // before a model is opened
		{"NONE --task passkey --file BINARY", 1, "not UTF-8"},
		{"NONE --task cloze --file SHORT", 1, "has no question of the task"},
		{"NONE --task passkey --file TEXT", 1, "none: file does not exist"},
		{"SHORT --task cloze --file TEXT", 1, "short"},
		{"FILE --task cloze --file TEXT --against SHORT", 1, "short"},
		{"FILE --task cloze --file TEXT --questions FILE/q", 3, "not a directory"},
	} {
		names := strings.NewReplacer("FILE", file, "TEXT", text, "SHORT", short, "BINARY", binary,
			"NONE", filepath.Join(t.TempDir(), "none"))
		args := strings.Fields(names.Replace(c.args))
		if stdout, stderr, code := runApp(t, evalCommand(), args...); code != c.code ||
			!strings.Contains(stderr, c.word) || stdout != "" {
			t.Errorf("%s: code %d, want %d with %q: %s%s", c.args, code, c.code, c.word, stdout, stderr)
		}
	}
}
