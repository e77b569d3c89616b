package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// selfOptions are those of tests in which the model writes its own text.
func selfOptions() Options {
	o := plain(packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true, Include: []string{"*layers.0.*"}})
	o.Self, o.Method = true, packed.MeanSquare
	return o
}

// TestSelf: the model writes a text of which every token is read; its seed and digest are recorded, and the planned
// size is that of the file. Nothing else is left.
func TestSelf(t *testing.T) {
	source, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	o, path := selfOptions(), filepath.Join(dir, "file")
	written := int64(0)
	o.Progress = func(what string, done, _ int64) {
		if what == SelfTextPhase {
			written = done
		}
	}
	p := newPlan(t, source, o)
	all := p.cut.all()
	if c := p.Recipe.Calibration; c.SelfSeed != selfSeed || c.Tokens != all || p.windows != nil {
		t.Errorf("planned is %+v", c)
	}
	if _, err := p.Run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != p.Bytes || written != int64(all) {
		t.Errorf("%v bytes where %d were planned, %d of %d tokens written, %v", info, p.Bytes, written, all, err)
	}
	testRecorded(t, p, path)
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v are left in the directory", left)
	}
}

// testRecorded compares what the file records with the text.
func testRecorded(t *testing.T, p *Plan, path string) {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.Load(p.source.File)
	if err != nil {
		t.Fatal(err)
	}
	c := f.Manifest().Recipe.Calibration
	if c.SelfSeed != selfSeed || c.Text != p.o.tokenized.digest || c.Tokens != len(p.o.tokenized.ids) {
		t.Errorf("recorded is %+v", c)
	}
	o := p.writing(tok)
	if slices.ContainsFunc(o.Openings, tok.Special) || len(o.Openings) == 0 || len(o.End) == 0 {
		t.Errorf("%d openings, some of them control tokens, and %d end tokens", len(o.Openings), len(o.End))
	}
	texts, err := calibrate.Write(t.Context(), floats(t, p), o)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, ids := range texts {
		text = append(text, tok.Decode(ids, true))
	}
	sum := sha256.Sum256([]byte(strings.Join(text, "\x00")))
	digest := hex.EncodeToString(sum[:])
	if digest != c.Text || !slices.Equal(slices.Concat(texts...), p.o.tokenized.ids) {
		t.Errorf("digest %s; want %s", c.Text, digest)
	}
}

// floats has the weights of a plan's checkpoint as they are.
func floats(t *testing.T, p *Plan) *packed.File {
	t.Helper()
	return convertTo(t, p.path, plain(packed.Recipe{Quant: QuantNone}))
}

// TestSelfRefused: the model writes nothing where a text is given, or where nothing could be done with it.
func TestSelfRefused(t *testing.T) {
	source := shared.Testdata(t, "tiny-bitnet")
	for name, change := range map[string]func(o *Options){
		"a text beside":      func(o *Options) { o.Calibration = []Document{{Text: calibrationText}} },
		"nothing to choose":  func(o *Options) { o.Recipe = packed.Recipe{} },
		"scales of matrices": func(o *Options) { o.Recipe.Scale = "tensor" },
	} {
		o := selfOptions()
		change(&o)
		p, err := NewPlan(t.Context(), source, o)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSelfAllocate: forms are chosen with the text that the model writes, and the conversion uses the same one without
// writing it again; without a use for it nothing is recorded.
func TestSelfAllocate(t *testing.T) {
	source, path := mini(t, "llama-3.2-1b", nil), filepath.Join(t.TempDir(), "file")
	o := plain(packed.Recipe{})
	o.Self = true
	a, err := Allocate(t.Context(), source, o, Budget{Bits: 5}, path)
	if err != nil {
		t.Fatal(err)
	}
	applied := a.Apply(o)
	applied.Progress = func(what string, _, _ int64) {
		if what == SelfTextPhase {
			t.Error("the text is written again")
		}
	}
	p := newPlan(t, source, applied)
	if _, err := p.Run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	again := newPlan(t, source, Options{Recipe: applied.Recipe, Self: true})
	if _, err := again.Run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if *p.Recipe.Calibration != *again.Recipe.Calibration || p.Recipe.Calibration.SelfSeed == 0 {
		t.Errorf("recorded is %+v, and %+v of the rules alone", p.Recipe.Calibration, again.Recipe.Calibration)
	}
	if a, err = Allocate(t.Context(), source, o, Budget{Bits: 16}, path); err != nil {
		t.Fatal(err)
	}
	if p := newPlan(t, source, a.Apply(o)); p.Recipe.Calibration != nil {
		t.Errorf("for int8 alone, recorded is %+v", p.Recipe.Calibration)
	}
}
