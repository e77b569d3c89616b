package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestDefinitions: every quantizer of convert has a second definition, and there are no others.
func TestDefinitions(t *testing.T) {
	names := []string{}
	for _, r := range quantize.Rules() {
		names = append(names, r.Name)
		if _, ok := definitions[r.Name]; !ok {
			t.Errorf("quantizer %s has no second definition", r.Name)
		}
	}
	for name := range definitions {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not a quantizer of convert", name)
		}
	}
	if quantize.ImportU8 != importU8 {
		t.Errorf("imported codes are called %q", quantize.ImportU8)
	}
}

// awkward weights: normal ones, and rows of zeros, of ties, of denormals and with one large outlier. Exact rules get
// the few values that they demand.
func awkward(rule string, k int) func(i int) float32 {
	r := rand.New(rand.NewPCG(7, 7))
	return func(i int) float32 {
		row, sign := i/k, float32(2*r.IntN(2)-1)
		switch rule {
		case "ternary-values":
			return float32(r.IntN(3)-1) * []float32{0.375, 0.75}[row%2]
		case "int2-values":
			a := float32(0.0371)
			return sign * []float32{a, 3 * a}[r.IntN(2)]
		case "sign-values":
			return sign * []float32{0.375, 0, 0.7}[row%3]
		case "int3-values":
			return 0.0123 * float32(r.IntN(8)-4)
		case "int4-values":
			return 0.0123 * float32(r.IntN(16)-8)
		}
		switch row % 6 {
		case 1:
			return 0
		case 2:
			return float32(r.IntN(9)-4) / 4
		case 3:
			return sign * float32(1+r.IntN(1000)) * 0x1p-140
		case 4:
			if i%k == 7 {
				return 3000
			}
		}
		return float32(r.NormFloat64()) / 8
	}
}

// TestQuantizers converts weights with every quantizer, type and kind of scale; the second definitions give the same
// codes and scales, and notice when a code is one step off or a scale one unit in the last place.
func TestQuantizers(t *testing.T) {
	const m, k = 14, 100
	for _, rule := range quantize.Rules() {
		for _, dtype := range race.Few(1, []string{"BF16", "F32", "F16"}) {
			for _, kind := range rule.Kinds {
				if rule.Name == "ternary-values" && kind == "tensor" {
					continue // the rule takes one scale per row where rows differ
				}
				name := fmt.Sprintf("%s, %s, scale per %s", rule.Name, dtype, kind)
				scale := string(kind)
				if kind == quantize.PerGroup {
					scale = fmt.Sprintf("group:%d", cmp.Or(rule.Group, 32))
				}
				source := bare(t, dtype, m, k, awkward(rule.Name, k))
				recipe := packed.Recipe{Quant: rule.Name, Scale: scale, Layout: layoutFor(rule.Alphabet.Name),
					Golden:     "none",
					AllowLossy: true}
				path := tinymodel.Converted(t, source, recipe)
				if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
					t.Errorf("%s: %v", name, bad)
					continue
				}
				checkSensitivity(t, name, path, source)
			}
		}
	}
}

func layoutFor(alphabet string) string {
	switch alphabet {
	case "int8":
		return "vnni4"
	case "int3", "int5", "int6":
		return "vnni4p"
	}
	return "vnni4i"
}

// checkSensitivity changes one scale, and then one byte of codes so that it still decodes.
func checkSensitivity(t *testing.T, name, path, source string) {
	t.Helper()
	s := newSealer(t, path)
	p, size := s.tensor("w.scale"), map[packed.ScaleType]int{"F32": 4, "F16": 2,
		"E8M0": 1}[s.parsed.Packed[0].Scale.DType]
	b := bytes.Clone(s.good)
	for slices.Max(b[p.begin:p.begin+size]) == 0 {
		p.begin += size
	}
	b[p.begin] ^= 1
	write(t, path, s.seal(b))
	if bad := failed(run(t, path, Options{Source: source})); len(bad) == 0 || bad[0].Level != Source {
		t.Errorf("%s: a scale that is off by one unit: %v", name, bad)
	}
	p = s.tensor("w.packed")
	for at := p.begin; at < p.end; at++ {
		b = bytes.Clone(s.good)
		b[at] ^= 1
		write(t, path, s.seal(b))
		if bad := failed(run(t, path, Options{Level: Codes})); len(bad) > 0 {
			continue // this change is not a code
		}
		if bad := failed(run(t, path, Options{Source: source})); len(bad) == 0 || bad[0].Level != Source {
			t.Errorf("%s: byte %d of the codes was changed: %v", name, at-p.begin, bad)
		}
		return
	}
	t.Errorf("%s: no byte could be changed so that it decodes", name)
}

// TestMeans: the sum is exact where a plain one is not.
func TestMeans(t *testing.T) {
	x := &extent{}
	x.add([]float32{1 << 30, 0x1p-40, -0x1p-40, -(1 << 30)})
	if x.sum+x.low != 0x1p31 || x.low != 0x1p-39 {
		t.Errorf("sum %v and %v", x.sum, x.low)
	}
	if m := x.means(); len(m) != 1 || m[0] != 1<<29 {
		t.Errorf("means %v", m)
	}
	tie := &extent{n: 1, sum: 1 + 0x1p-24} // exactly between two floats
	if m := tie.means(); len(m) != 2 {
		t.Errorf("means at a tie: %v", m)
	}
}

func TestNearestE2M1(t *testing.T) {
	for _, c := range [][2]float64{{0, 0}, {0.25, 0}, {0.26, 1}, {0.75, 2}, {1.25, 2}, {1.75, 4}, {2.5, 4}, {3.5, 8},
		{5, 8}, {5.01, 12}, {100, 12}, {-0.75, -2}, {-5, -8}} {
		if got := nearestE2M1(c[0]); float64(got) != c[1] {
			t.Errorf("%v becomes %d, want %v", c[0], got, c[1])
		}
	}
}

// TestStoredScaleTypes: scales in another type than the quantizer stores, or without the sign that they may have, are
// not those of the quantizer, whatever their values.
func TestStoredScaleTypes(t *testing.T) {
	source := bare(t, "BF16", 6, 64, awkward("int8", 64))
	path := tinymodel.Converted(t, source,
		packed.Recipe{Quant: "int8", Scale: "group:32", Layout: "vnni4", Golden: "none", AllowLossy: true})
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := f.Manifest().Packed[0]
	codes, err := packed.Codes(f, &e, 0)
	if err != nil {
		t.Fatal(err)
	}
	scales, err := packed.Scales(f, &e)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []packed.Scale{{DType: packed.ScaleF16}, {DType: packed.ScaleF32},
		{DType: packed.ScaleF16, Signed: true}} {
		how.Kind, how.Group = e.Scale.Kind, e.Scale.Group
		m := sample.Model{
			Recipe: f.Manifest().Recipe, Activation: f.Manifest().Activation, Sources: []string{source},
			Quantized: []sample.Quantized{{Name: e.Name, Matrix: codes, Layout: e.Layout, Scale: how, Scales: scales,
				Quantizer: e.Quantizer}},
		}
		path := filepath.Join(t.TempDir(), "m.safetensors")
		m.Write(t, path)
		bad := failed(run(t, path, Options{Source: source}))
		if same := how == e.Scale; same != (len(bad) == 0) || !same && bad[0].Rule != "N23" {
			t.Errorf("scales stored as %+v: %v", how, bad)
		}
	}
}

// TestCalibratedScales: scales that a calibration text chose are taken as they are, and codes must follow from them;
// quantizers that calibrate nothing have none.
func TestCalibratedScales(t *testing.T) {
	source := filepath.Join(t.TempDir(), "model")
	tinymodel.Miniature(t, "llama-3.2-1b", source)
	for _, c := range []struct {
		quant  string
		method packed.Method
	}{{"int4", packed.MeanSquare}, {"mxfp4", packed.MeanSquare}, {"int4", packed.GPTQ}, {"int2", packed.GPTQ},
		{"int3", packed.GPTQ}, {"int5", packed.MeanSquare}, {"int6", packed.GPTQ},
		{"iq4nl", packed.MeanSquare}, {"iq4nl", packed.GPTQ}} {
		quant, path := c.quant, filepath.Join(t.TempDir(), "m.safetensors")
		p, err := convert.NewPlan(context.Background(), source, convert.Options{
			Method: c.method,
			Recipe: packed.Recipe{Quant: quant, Scale: "group:32", Golden: "none", AllowLossy: true,
				Include: []string{"*layers.0.*"}},
			Calibration: []convert.Document{
				{Text: strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Run(context.Background(), path); err != nil {
			t.Fatal(err)
		}
		o := Options{Source: source}
		r := run(t, path, o)
		chosen := map[packed.Method]string{packed.MeanSquare: "scales", packed.GPTQ: "scales and codes"}[c.method]
		note := "calibration chose the " + chosen + " of 7 of 7"
		if bad := failed(r); len(bad) > 0 || !strings.Contains(strings.Join(r.Notes, " "), note) {
			t.Fatal(quant, bad, r.Notes)
		}
		s := newSealer(t, path)
		b := bytes.Clone(s.good)
		at := s.tensor(s.parsed.Packed[0].Name + packed.ScaleSuffix)
		high := map[packed.ScaleType]int{"F16": 1, "E8M0": 0}[s.parsed.Packed[0].Scale.DType] // byte of a scale
		switch exponent := &b[at.begin+high]; {
		case c.method != packed.GPTQ:
			*exponent ^= 4
		case quant == "int2":
			*exponent += 0x20 // a scale 256 times as large: with 16 the nearest codes, all 0, miss as much of a row
		default:
			*exponent += 0x10 // 16 times as large, as a bound is all that there is
		}
		write(t, path, s.seal(b))
		if bad := failed(run(t, path, o)); len(bad) == 0 {
			t.Errorf("%v: codes that do not follow from a scale pass", c)
		}
		if quant != "int4" {
			continue
		}
		header := 8 + int(binary.LittleEndian.Uint64(s.good))
		text := bytes.ReplaceAll(s.text, []byte(`"quantizer":"int4"`), []byte(`"quantizer":"int8"`))
		write(t, path, s.sealManifest(s.good, header, text))
		if bad := failed(run(t, path, o)); len(bad) == 0 || bad[0].Rule != "F9" {
			t.Errorf("calibrated scales of a quantizer that calibrates none: %v", bad)
		}
	}
}
