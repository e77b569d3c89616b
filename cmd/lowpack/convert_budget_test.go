package main

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
		!strings.Contains(said, "KL divergence") {
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
