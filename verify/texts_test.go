package verify

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// worded is a small model with the tokenizer and the chat template of the bundled one.
func worded(t testing.TB, mode packed.GoldenMode) *sample.Model {
	m := tinyModel(t)
	m.Plain = append(m.Plain, sample.Embed("generation_config.json", `{"do_sample": true, "temperature": 0.6}`))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		m.Plain = append(m.Plain, sample.Embed(name, string(read(t, shared.Testdata(t, "tiny-bitnet/"+name)))))
	}
	m.Golden, m.GoldenSize, m.Recipe.Golden = nil, 0, mode
	if mode != "none" {
		m = withGolden(t, m)
	}
	return m
}

// embedded replaces an embedded file.
func embedded(m *sample.Model, name string, change func(text string) string) {
	for i, p := range m.Plain {
		if p.Name == packed.FilePrefix+name {
			m.Plain[i] = sample.Embed(name, change(string(p.Data)))
		}
	}
}

// TestTexts: the golden texts are what tokenizer and chat template give, one check each.
func TestTexts(t *testing.T) {
	r := run(t, file(t, worded(t, "full")), Options{})
	var names []string
	for _, c := range r.Checks {
		if c.Group == textsGroup {
			names = append(names, c.Name)
		}
	}
	want := []string{"lowpack/generation_config.json", "lowpack/tokenizer.json", "all of them"}
	for _, x := range golden.Texts() {
		want = append(want, x.Name)
	}
	if !r.OK || !slices.Equal(names, append(want, golden.ConversationName)) || r.Coverage.Texts != 10 {
		t.Errorf("%v %v %+v", failed(r), names, r.Coverage)
	}
}

// TestBrokenTexts: a tokenizer, a chat template or a generation_config.json that is broken, or another one than when
// the file was made, fails by its name, whatever the digests say and whether there are golden texts or not.
func TestBrokenTexts(t *testing.T) {
	always := func(text string) func(string) string { return func(string) string { return text } }
	for _, c := range []struct {
		name   string
		change func(string) string
		check  string
		full   bool // noticed by golden texts alone
	}{
		{"tokenizer.json", always("{}"), "lowpack/tokenizer.json", false},
		{"tokenizer.json", always("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
			"lowpack/tokenizer.json", false},
		{"tokenizer.json", func(s string) string { return s[:len(s)/2] }, "lowpack/tokenizer.json", false},
		{"generation_config.json", func(s string) string {
			return strings.Replace(s, `"temperature": 0.6`, `"temperature": -1`, 1)
		}, "lowpack/generation_config.json", false},
		{"tokenizer.json", strings.NewReplacer(`"1": 16,`, `"1": 17,`, `"2": 17,`, `"2": 16,`).Replace, "digits", true},
		{"tokenizer_config.json", func(s string) string {
			return strings.Replace(s, `"chat_template": "`, `"chat_template": "X`, 1)
		}, golden.ConversationName, true},
		{"tokenizer_config.json", func(s string) string {
			return strings.Replace(s, "chat_template", "chat_templat_", 1)
		},
			"all of them", true},
	} {
		for _, mode := range []packed.GoldenMode{"full", "none"} {
			m := worded(t, mode)
			before := slices.Clone(m.Plain)
			embedded(m, c.name, c.change)
			if slices.EqualFunc(before, m.Plain, func(a, b sample.Plain) bool { return bytes.Equal(a.Data, b.Data) }) {
				t.Fatalf("%s was not changed", c.name)
			}
			bad := failed(run(t, file(t, m), Options{}))
			named := slices.ContainsFunc(bad, func(b Check) bool {
				return b.Level == Logits && b.Group == textsGroup && b.Name == c.check
			})
			if named != (mode == "full" || !c.full) {
				t.Errorf("%s, golden outputs %s: %v, not by name of %q", c.name, mode, bad, c.check)
			}
		}
	}
}

// TestForgedTexts: golden texts cannot be left out, shortened or changed.
func TestForgedTexts(t *testing.T) {
	m := worded(t, "full")
	honest := m.Golden(nil)
	for _, c := range []struct {
		name   string
		change func(r *golden.Record)
		level  Level
		says   string
	}{
		{"left out", func(r *golden.Record) { r.Texts = nil }, Logits, "give 10"},
		{"no conversation", func(r *golden.Record) { r.Texts = r.Texts[:9] }, Logits, "give 10"},
		{"shortened", func(r *golden.Record) { r.Texts = r.Texts[:3] }, File, "3 texts"},
		{"another text", func(r *golden.Record) { r.Texts[1].Text = "x" }, File, "10 texts"},
		{"another token", func(r *golden.Record) { r.Texts[1].Tokens[3]++ }, Logits, "number 3"},
		{"another rendering", func(r *golden.Record) { r.Texts[9].Text += "x" }, Logits, "chat template"},
	} {
		record, err := golden.Decode(honest)
		if err != nil {
			t.Fatal(err)
		}
		c.change(record)
		b, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.GoldenSize, m.Golden = len(b), func(packed.View) []byte { return b }
		bad := failed(run(t, file(t, m), Options{}))
		if len(bad) != 1 || bad[0].Level != c.level || bad[0].Rule != "F8" || !strings.Contains(bad[0].Reason, c.says) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}
