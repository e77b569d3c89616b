package main

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestBudget: a conversion for a number of bits says what it expects, and the recipe of its report gives the same file.
func TestBudget(t *testing.T) {
	dir, model := t.TempDir(), shared.Testdata(t, "tiny-bitnet")
	at := func(name string) string { return filepath.Join(dir, name) }
	text := strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)
	if err := os.WriteFile(at("text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	convert := []string{"convert", model, "--golden", "none", "--calibrate", at("text"), "--method", "mean-square"}
	code, said := inPlace(append(convert, "--bits", "5", "-o", at("a"), "--report", at("a.html"))...)
	if code != 0 || !strings.Contains(said, "bits per weight of the linear layers: ") ||
		!strings.Contains(said, "Expected from rounding alone: a KL divergence") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	page, err := os.ReadFile(at("a.html"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile("(?s)<pre>(rules:.*)</pre>").FindSubmatch(page)
	if recipe == nil {
		t.Fatal("the report has no recipe")
	}
	if err := os.WriteFile(at("recipe"), []byte(html.UnescapeString(string(recipe[1]))), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := inPlace(append(convert, "--recipe", at("recipe"), "--allow-lossy", "-o", at("b"))...); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	a, err := os.ReadFile(at("a"))
	b, err2 := os.ReadFile(at("b"))
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("the recipe of the report gives another file: %v, %v", err, err2)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--bits", "5", "--size", "1GB"}, "name one of them"},
		{[]string{"--bits", "5", "--quant", "int4"}, "leave out --quant"},
		{[]string{"--size", "5MB", "--recipe", at("recipe")}, "leave out --recipe"},
		{[]string{"--size", "a lot"}, `"a lot" is not a size`},
		{[]string{"--bits", "0"}, "invalid --bits"},
		{[]string{"--bits", "5", "--min-quality", "1.1"}, "--bits and --min-quality each bound the file"},
		{[]string{"--min-quality", "1"}, "invalid --min-quality"},
		{[]string{"--min-quality", "1.1", "--scale", "row"}, "--min-quality chooses the forms of all linear layers"},
	} {
		if code, said := inPlace(append(append(convert, "-o", at("c")), c.flags...)...); code != 2 ||
			!strings.Contains(said, c.want) {
			t.Errorf("%v: exit code %d: %s", c.flags, code, said)
		}
	}
	if code, said := inPlace("convert", model, "-o", at("c"), "--bits", "5"); code != 2 ||
		!strings.Contains(said, "--calibrate TEXT") {
		t.Errorf("without a text: exit code %d: %s", code, said)
	}
}

// TestBudgetExperts: a model with experts has a file of the size that is asked for, which verifies and runs.
func TestBudgetExperts(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)
	if err := os.WriteFile(at("text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, like := range []string{"olmoe-1b-7b", "granite-3.1-1b-a400m"} {
		model, file := at(like), at(like+".safetensors")
		for _, args := range [][]string{{"synth", "--like", like, "--mini", "-o", model},
			{"convert", model, "-o", file, "--calibrate", at("text"), "--size", "200kB"}, {"verify", file},
			{"run", file, "-p", "Once upon", "-n", "8"}} {
			if code, said := inPlace(args...); code != 0 {
				t.Fatalf("%v: exit code %d: %s", args, code, said)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Size() > 200_000 || info.Size() < 190_000 {
			t.Errorf("%s: %v, %v", like, info, err)
		}
	}
}

// TestRecommendSizes: bench recommend with a text has a line for each file, the same in JSON and in the chart, and
// promises what convert makes.
func TestRecommendSizes(t *testing.T) {
	dir, model := t.TempDir(), shared.Testdata(t, "tiny-bitnet")
	at := func(name string) string { return filepath.Join(dir, name) }
	text := strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)
	if err := os.WriteFile(at("text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	recommend := []string{"bench", "recommend", model, "--calibrate", at("text")}
	code, said := inPlace(append(recommend, "--svg", at("sizes.svg"), "--json", "--quiet")...)
	var s bench.Sizes
	if err := json.Unmarshal([]byte(said), &s); err != nil || code != 0 || len(s.Chosen) < 8 || s.Method != "gptq" {
		t.Fatalf("exit code %d, %v: %s", code, err, said)
	}
	svg, err := os.ReadFile(at("sizes.svg"))
	if err != nil || strings.Count(string(svg), " bits per weight of the layers, ") != len(s.Chosen) ||
		!strings.Contains(string(svg), "expected with error feedback") {
		t.Errorf("%d files, and the chart %s, %v", len(s.Chosen), svg, err)
	}
	var table bytes.Buffer
	printSizes(&table, &s)
	lines := regexp.MustCompile(`(?m)^for each tensor +([0-9.]+[kMG]B) +\S+ \S+ +\d\.\d\d +0\.\d{4} +× 1\.\d{3} `).
		FindAllStringSubmatch(table.String(), -1)
	bar := strings.Repeat("█", lossWidth)
	if len(lines) != len(s.Chosen) || !strings.Contains(table.String(), "\nint8 row ") ||
		!strings.Contains(table.String(), "\nExpected with error feedback. ") ||
		!strings.Contains(table.String(), bar+" ") || strings.Contains(table.String(), bar+"█") {
		t.Errorf("%d files, and the table %s", len(s.Chosen), table.String())
	}
	last := len(s.Chosen) - 1
	if tables := s.Chosen[0].Tables; len(tables) == 0 || tables[0].Form != "int4 group:32" ||
		s.Chosen[last].Tables[0].Form != "as it is" || !strings.Contains(table.String(), " embed_tokens ") {
		t.Errorf("the embedding has %+v, and the table %s", tables, table.String())
	}
	code, said = inPlace("convert", model, "-o", at("out"), "--calibrate", at("text"), "--size", lines[last/2][1])
	if info, err := os.Stat(at("out")); err != nil || code != 0 || info.Size() != s.Chosen[last/2].Bytes ||
		!strings.Contains(said, "Expected with error feedback: a KL divergence") {
		t.Errorf("not %d bytes: %v, exit code %d: %s", s.Chosen[last/2].Bytes, err, code, said)
	}
	for _, flags := range [][]string{{"--quant", "int4"}, {"--scale", "row"}, {"--time", "1ms"},
		{"--max-spread", "5"}} {
		if code, said := inPlace(append(recommend, flags...)...); code != 2 || !strings.Contains(said, flags[0]) {
			t.Errorf("%v: exit code %d: %s", flags, code, said)
		}
	}
	if code, said := inPlace("bench", "recommend", model, "--svg", at("b.svg")); code != 2 ||
		!strings.Contains(said, "--calibrate TEXT") {
		t.Errorf("without a text: exit code %d: %s", code, said)
	}
}
