package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/kernel"
)

// choicesIn makes processes that a test starts look for choices in a new folder, and returns the file of this CPU.
func choicesIn(t *testing.T) (file string) {
	t.Setenv(testChoices, t.TempDir())
	file, err := choicesFile()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// someChoices is a report that says another number of tokens than the tables for everything.
func someChoices(t *testing.T) *bench.ChoicesReport {
	r := &bench.ChoicesReport{}
	for _, line := range kernel.Thresholds() {
		line.Tokens = 77
		r.Thresholds = append(r.Thresholds, bench.ThresholdRow{Threshold: line})
	}
	if len(r.Thresholds) == 0 {
		t.Skip("no thresholds on this CPU")
	}
	return r
}

// versionOf returns what `lowpack version --json` prints in a new process.
func versionOf(t *testing.T) (b build) {
	t.Helper()
	o := command(t, "version", "--json")
	if err := json.Unmarshal([]byte(o.out), &b); o.code != 0 || err != nil {
		t.Fatalf("exit code %d, %v:\n%s", o.code, err, o.out)
	}
	return b
}

// TestChoicesKept: what is saved is what the next process goes by, and version says so.
func TestChoicesKept(t *testing.T) {
	file := choicesIn(t)
	if b := versionOf(t); b.Choices != (usedChoices{}) || len(b.Thresholds) == 0 || b.Thresholds[0].Tokens == 77 {
		t.Errorf("without a file: %+v", b)
	}
	if err := saveChoices(file, someChoices(t)); err != nil {
		t.Fatal(err)
	}
	b, today := versionOf(t), time.Now().UTC().Format(time.DateOnly)
	if b.Choices.File != file || b.Choices.Ignored != "" || len(b.Choices.Date) != len(today) {
		t.Errorf("%+v", b.Choices)
	}
	for _, line := range b.Thresholds {
		if line.Tokens != 77 || !strings.HasPrefix(line.From, "measured on this CPU, ") {
			t.Errorf("%v", &line)
		}
	}
	if o := command(t, "version"); !strings.Contains(o.out, "from 77 tokens on (measured on this CPU, ") ||
		!strings.Contains(o.out, file) {
		t.Errorf("%s", o.out)
	}
	if o := command(t, "layouts"); strings.Contains(o.out, file) {
		t.Errorf("a note about a good file:\n%s", o.out)
	}
}

// TestChoicesIgnored: a file that is damaged, too large, of another CPU or program, or has values out of range, is told
// once and changes nothing.
func TestChoicesIgnored(t *testing.T) {
	file := choicesIn(t)
	usual := versionOf(t)
	if err := saveChoices(file, someChoices(t)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, by string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("no %q in %s", old, good)
		}
		return strings.ReplaceAll(string(good), old, by)
	}
	for name, text := range map[string]string{
		"empty":          "",
		"cut":            string(good[:len(good)/2]),
		"two":            string(good) + string(good),
		"not JSON":       "\x00\xff",
		"another type":   replaced(`"tokens": 77`, `"tokens": "77"`),
		"unknown field":  replaced(`"date"`, `"more": 1, "date"`),
		"another schema": replaced(choicesSchema, "lowpack.choices/9"),
		"another CPU":    replaced(`"features": "`, `"features": "x `),
		"other tables":   replaced(fmt.Sprintf(`"tables": %d`, kernel.TablesVersion), `"tables": 0`),
		"no date":        replaced(`"date": "20`, `"date": "x`),
		"out of range":   replaced(`"tokens": 77`, `"tokens": 65537`),
		"negative":       replaced(`"tokens": 77`, `"tokens": -1`),
		"beyond int":     replaced(`"tokens": 77`, `"tokens": 1e30`),
		"too large":      string(good) + strings.Repeat(" ", mostChoices),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b := versionOf(t)
		if strings.Count(b.Choices.Ignored, file) != 1 || b.Choices.Date != "" {
			t.Errorf("%s: %+v", name, b.Choices)
		}
		for i, line := range b.Thresholds {
			if line != usual.Thresholds[i] {
				t.Errorf("%s: %v", name, &line)
			}
		}
	}
	o := command(t, "layouts")
	if o.code != 0 || strings.Count(o.out, file) != 1 || !strings.Contains(o.out, "bench machine --save") {
		t.Errorf("exit code %d:\n%s", o.code, o.out)
	}
	if o := command(t, "layouts", "--quiet"); strings.Contains(o.out, file) {
		t.Errorf("a note with --quiet:\n%s", o.out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o755); err != nil {
		t.Fatal(err)
	}
	if b := versionOf(t); b.Choices.Ignored == "" {
		t.Error("a folder in place of the file")
	}
}

// TestChoicesForced: choices of all instruction sets are not replaced by those of one.
func TestChoicesForced(t *testing.T) {
	file := choicesIn(t)
	t.Setenv(kernel.EnvISA, string(kernel.Generic))
	if o := command(t, "bench", "machine", "--save"); o.code != 2 || !strings.Contains(o.out, kernel.EnvISA) {
		t.Errorf("exit code %d:\n%s", o.code, o.out)
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// BenchmarkTakeChoices measures what every start of the program costs.
func BenchmarkTakeChoices(b *testing.B) {
	b.Setenv(testChoices, b.TempDir())
	file, err := choicesFile()
	if err != nil {
		b.Fatal(err)
	}
	r := &bench.ChoicesReport{}
	for _, line := range kernel.Thresholds() {
		r.Thresholds = append(r.Thresholds, bench.ThresholdRow{Threshold: line})
	}
	if err := saveChoices(file, r); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if used := takeChoices(); used.File == "" || used.Ignored != "" {
			b.Fatal(used)
		}
	}
}
