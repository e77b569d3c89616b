package packed

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/pack"
)

// TestRefusals changes the manifest of a valid file and keeps digest and canonical form correct: the rules on names,
// order and sizes must reject it.
func TestRefusals(t *testing.T) {
	c, data, codes := sample(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	writeSample(t, path, c, data, codes)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for rule, change := range map[string]func(*Manifest){
		"F11: version":          func(m *Manifest) { m.Format = 3 },
		"F11: order of entries": func(m *Manifest) { m.Packed[0], m.Packed[1] = m.Packed[1], m.Packed[0] },
		"F11: digest":           func(m *Manifest) { m.Packed[0].SHA256 = strings.Repeat("A", 64) },
		"F11: codes digest":     func(m *Manifest) { m.Packed[0].CodesSHA = "" },
		"F11: plain digest":     func(m *Manifest) { m.Plain[0].SHA256 += "0" },
		"F11: source digest":    func(m *Manifest) { m.Sources[0].SHA256 = "00" },
		"F11: source size":      func(m *Manifest) { m.Sources[0].Size = -1 },
		"F11: repeated source":  func(m *Manifest) { m.Sources = append(m.Sources, m.Sources[0]) },
		"F14: shape":            func(m *Manifest) { m.Packed[0].Shape[0] += 32 },
		"F14: bytes":            func(m *Manifest) { m.Packed[0].Bytes++ },
		"F14: negative shape":   func(m *Manifest) { m.Packed[0].Shape = []int{-5, -10} },
		"F14: huge shape":       func(m *Manifest) { m.Packed[0].Shape = []int{1 << 40, 1 << 40} },
		"F14: unknown layout":   func(m *Manifest) { m.Packed[0].Layout.Name = "none" },
		"F14: unknown version":  func(m *Manifest) { m.Packed[0].Layout.Version = 99 },
		"F14: no version":       func(m *Manifest) { m.Packed[0].Layout.Version = 0 },
		"F14: unknown alphabet": func(m *Manifest) { m.Packed[0].Layout.Alphabet = "none" },
		"F9: kind of scale":     func(m *Manifest) { m.Packed[0].Scale.Kind = "column" },
		"F9: number of scales":  func(m *Manifest) { m.Packed[0].Scale.Kind = ScaleRow },
		"F9: group":             func(m *Manifest) { m.Packed[1].Scale.Group = 0 },
		"F6: missing entry":     func(m *Manifest) { m.Packed = m.Packed[:1] },
		"F6: one entry too many": func(m *Manifest) {
			m.Packed = append(m.Packed, m.Packed[1])
			m.Packed[2].Name += "~"
		},
		"F26: pooling mode": func(m *Manifest) { m.Pooling = &pooling.Pooling{Mode: "cls"} },
		"F26: pooling of nothing": func(m *Manifest) {
			m.Pooling = &pooling.Pooling{Mode: pooling.Mean, MaxTokens: -1}
		},
		"F27: tokens of scores": func(m *Manifest) {
			m.Scoring = &scoring.Scoring{True: -1, Activation: scoring.Sigmoid, Format: scoring.Flat}
		},
		"F27: activation of scores": func(m *Manifest) { m.Scoring = &scoring.Scoring{Format: scoring.Flat} },
		"F27: pooling and scoring": func(m *Manifest) {
			m.Pooling = &pooling.Pooling{Mode: pooling.Mean}
			m.Scoring = &scoring.Scoring{True: 5, False: 7, Activation: scoring.Sigmoid, Format: scoring.Flat}
		},
		"F7: missing plain":       func(m *Manifest) { m.Plain = m.Plain[1:] },
		"F7: plain out of order":  func(m *Manifest) { m.Plain[0], m.Plain[1] = m.Plain[1], m.Plain[0] },
		"F7: plain twice":         func(m *Manifest) { m.Plain[0] = m.Plain[1] },
		"F7: unknown plain":       func(m *Manifest) { m.Plain[0].Name = "unknown" },
		"F7: shape of an empty":   func(m *Manifest) { m.Plain[1].Shape[1]++ },
		"F8: golden not recorded": func(m *Manifest) { m.Golden = "" },
	} {
		m := copyOf(t, f.manifest)
		change(m)
		header, err := f.frame.header(m)
		if err != nil {
			t.Fatal(rule, err)
		}
		bad := filepath.Join(dir, "bad.safetensors")
		if err := os.WriteFile(bad, append(header, good[f.start:]...), 0o644); err != nil {
			t.Fatal(err)
		}
		if g, err := Open(bad); err == nil {
			g.Close()
			t.Errorf("%s: accepted", rule)
		} else if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
			!errors.Is(err, pack.ErrLimit) {
			t.Errorf("%s: error of no class: %v", rule, err)
		} else if !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: the error does not name the file: %v", rule, err)
		}
	}
}

func copyOf(t *testing.T, m *Manifest) *Manifest {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var c Manifest
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestManifestForm(t *testing.T) {
	c, _, _ := sample(t)
	m, _, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseManifest(text); err != nil {
		t.Fatal(err)
	}
	s := string(text)
	for what, other := range map[string]string{
		"a space":          strings.Replace(s, ":", ": ", 1),
		"an unknown field": strings.Replace(s, `"tool"`, `"extra":1,"tool"`, 1),
		"a field twice":    strings.Replace(s, `"tool"`, `"tool":"x","tool"`, 1),
		"another spelling": strings.Replace(s, `"tool"`, `"Tool"`, 1),
		"an escape":        strings.Replace(s, "lowpack test", `lowpack\u0020test`, 1),
		"another order": strings.Replace(s, `"tool":"lowpack test","family":"none"`,
			`"family":"none","tool":"lowpack test"`, 1),
		"a missing field": strings.Replace(s, `"family":"none",`, "", 1),
		"null for a list": strings.Replace(s, `"sources":[`, `"sources":null,"x":[`, 1),
		"a tail":          s + "{}",
		"nothing":         "",
		"a list":          "[]",
	} {
		if other == s {
			t.Fatalf("%s: the test changes nothing", what)
		}
		if _, err := ParseManifest([]byte(other)); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestContentsRefusals requests files that the format cannot represent.
func TestContentsRefusals(t *testing.T) {
	for what, change := range map[string]func(*Contents){
		"a plain tensor with the name of a quantized one": func(c *Contents) { c.Manifest.Plain[0].Name = "a.weight" },
		"a plain tensor with the name of stored codes": func(c *Contents) {
			c.Manifest.Plain[0].Name = "a.weight.packed"
		},
		"a tensor twice":   func(c *Contents) { c.Manifest.Plain[0].Name = "embed" },
		"an unknown dtype": func(c *Contents) { c.Manifest.Plain[0].DType = "F4" },
		"a wrong size":     func(c *Contents) { c.Manifest.Packed[0].Bytes-- },
		"an absurd rank":   func(c *Contents) { c.Manifest.Plain[0].Shape = make([]int, 99) },
	} {
		c, _, _ := sample(t)
		change(&c)
		dir := t.TempDir()
		if w, err := Create(filepath.Join(dir, "x"), c); err == nil {
			w.Abort()
			t.Errorf("%s: accepted", what)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind %v", what, left)
		}
	}
}

// TestIncomplete omits something: then nothing is committed.
func TestIncomplete(t *testing.T) {
	c, data, _ := sample(t)
	path := filepath.Join(t.TempDir(), "x")
	w, err := Create(path, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tensor("norm"); err == nil {
		t.Error("a tensor can be read before it is written")
	}
	if err := w.WriteTensor("norm", data["norm"][:3]); err == nil {
		t.Error("a tensor may be too short")
	}
	if err := w.WriteTensor("norm", append(data["norm"], 0)); err == nil {
		t.Error("a tensor may be too long")
	}
	if err := w.WriteTensor("other", nil); err == nil {
		t.Error("an unknown tensor was written")
	}
	if err := w.Commit(); err == nil {
		t.Error("an incomplete file was committed")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an incomplete file appeared")
	}
}

func TestOpenKinds(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("\x08\x00\x00\x00\x00\x00\x00\x00{}      "), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, empty, plain, filepath.Join(dir, "absent")} {
		if f, err := Open(path); err == nil {
			f.Close()
			t.Errorf("%s: opened", path)
		}
	}
}

// TestEmbeddedSizes: the size of an embedded file in a header is bounded before anything is read or allocated for it.
func TestEmbeddedSizes(t *testing.T) {
	for _, f := range modelfile.All() {
		p := Plain{Name: FilePrefix + f.Name, DType: "U8", Shape: []int{int(f.Limit)}, SHA256: placeholder}
		if err := p.check(); err != nil {
			t.Errorf("%s of %d bytes: %v", f.Name, f.Limit, err)
		}
		p.Shape[0]++
		if err := p.check(); !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("%s of %d bytes: %v", f.Name, p.Shape[0], err)
		}
	}
	for _, f := range slices.Concat(modelfile.Quantization(), modelfile.Sentence()) {
		p := Plain{Name: FilePrefix + f.Name, DType: "U8", Shape: []int{1}, SHA256: placeholder}
		if err := p.check(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s is embedded: %v", f.Name, err)
		}
	}
}
