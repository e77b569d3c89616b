package verify

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestSelf: the report says that the model wrote the calibration text itself, and a number of tokens that it does not
// write is refused.
func TestSelf(t *testing.T) {
	source, path := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "m.safetensors")
	tinymodel.Miniature(t, "llama-3.2-1b", source)
	p, err := convert.NewPlan(t.Context(), source, convert.Options{Self: true, Method: packed.MeanSquare,
		Recipe: packed.Recipe{Quant: "int4", Scale: "group:32", Golden: "none", AllowLossy: true,
			Include: []string{"*layers.0.*"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	o := Options{Source: source}
	r := run(t, path, o)
	if bad := failed(r); len(bad) > 0 || !strings.Contains(strings.Join(r.Notes, " "), "convert --calibrate self") {
		t.Fatal(bad, r.Notes)
	}
	s := newSealer(t, path)
	field := fmt.Sprintf(`"tokens":%d`, p.Recipe.Calibration.Tokens)
	if !bytes.Contains(s.text, []byte(field)) {
		t.Fatalf("no %s in %s", field, s.text)
	}
	for _, other := range []string{`"tokens":300`, `"tokens":16384`, `"tokens":0`} {
		write(t, path, sealHeader(s.good, bytes.ReplaceAll(s.text, []byte(field), []byte(other))))
		if bad := failed(run(t, path, o)); len(bad) == 0 || bad[0].Rule != "N73" {
			t.Errorf("%s: %v", other, bad)
		}
	}
}

// TestSelfOfStages: windows end where rotations change with the length of the text.
func TestSelfOfStages(t *testing.T) {
	o := &origin{model: &model.Description{Config: model.Config{MaxPositions: 1200,
		Rope: model.Rope{Dynamic: 4, OriginalMaxPositions: 300}}}}
	for tokens, good := range map[int]bool{8100: true, 299 * 27: true, 8192: false, 511 * 16: false} {
		if err := o.checkSelf(&packed.Calibration{Method: packed.MeanSquare, Tokens: tokens}); (err == nil) != good {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
}

// TestCalibratedTables: what calibration chooses for the embedding and the head passes; error feedback excuses codes of
// the head, and of an embedding only if it is the head.
func TestCalibratedTables(t *testing.T) {
	text := strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)
	for _, c := range []struct {
		family string
		tables []string
		head   packed.Head
		alone  bool
	}{
		{"llama-3.2-1b", []string{"model.embed_tokens.weight"}, "", false},
		{"llama-3.2-1b", []string{"model.embed_tokens.weight"}, packed.HeadInt4, true},
		{"llama-3.2-1b", []string{"model.embed_tokens.weight"}, packed.HeadInt6, true},
		{"mistral-7b-v0.1", []string{"model.embed_tokens.weight", "lm_head.weight"}, "", true},
	} {
		source, path := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "m.safetensors")
		tinymodel.Miniature(t, c.family, source)
		r := packed.Recipe{Quant: "none", Head: c.head, Golden: "none", AllowLossy: true}
		for _, name := range c.tables {
			r.Rules = append(r.Rules, packed.Rule{Match: name, Quant: "int6", Scale: "group:64", Layout: "vnni4p"})
		}
		p, err := convert.NewPlan(t.Context(), source, convert.Options{Recipe: r, Method: packed.GPTQ,
			Calibration: []convert.Document{{Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Run(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
			t.Errorf("%s, head %q: %v", c.family, c.head, bad)
		}
		f, err := packed.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d, err := packed.Describe(f)
		if err != nil {
			t.Fatal(err)
		}
		o := &origin{session: &session{view: view{f}}, model: d}
		for i := range f.Manifest().Packed {
			e := &f.Manifest().Packed[i]
			if want := c.alone && e.Name == d.Embed; !e.Calibrated || o.embedsAlone(e) != want {
				t.Errorf("%s, head %q: %s: calibrated %t, an embedding alone: %t", c.family, c.head, e.Name,
					e.Calibrated, !want)
			}
		}
	}
}
