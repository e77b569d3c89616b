package convert

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// fewValues is a matrix in BF16 whose rows hold the given values, each row times its own scale.
func fewValues(rows, k int, values ...float32) raw {
	var w []float32
	for row := range rows {
		for col := range k {
			w = append(w, values[(row+col)%len(values)]*(0.0625+0.03125*float32(row)))
		}
	}
	return bf16([]int64{int64(rows), int64(k)}, w...)
}

// TestAuto: --quant auto chooses the narrowest codes that reproduce every value of floats with few values, even if
// single rows would fit narrower codes.
func TestAuto(t *testing.T) {
	set := func(r raw, row int, values ...float32) raw {
		x := bf16(nil, values...)
		copy(r.data[row*int(r.shape[1])*2:], x.data)
		return r
	}
	signs, four, eight := []float32{1, -1}, []float32{-3, -1, 1, 3}, []float32{-4, -3, -2, -1, 0, 1, 2, 3}
	zeros := make([]float32, 300)
	for _, c := range []struct {
		what string
		w    raw
		rule string // "" = refused as floats
		note string
	}{
		{"signs", fewValues(8, 300, signs...), "sign-values int1 row", ""},
		{"signs and a zero", set(fewValues(8, 300, signs...), 5, 0), "sign-values int1 row",
			"weights that are 0 and become +1 times the scale of their row: 1"},
		{"signs and a row of zeros", set(fewValues(8, 300, signs...), 5, zeros...), "sign-values int1 row", ""},
		{"signs and a few zeros", set(fewValues(8, 300, signs...), 5, 0, 0, 0), "ternary-values ternary row", ""},
		{"zeros alone", fewValues(8, 300, 0), "sign-values int1 row", ""},
		{"signs, then four levels", set(fewValues(8, 300, signs...), 7, 0.5, 1.5, -1.5, -0.5, 0.5, 1.5, -0.5, 1.5),
			"", "row 7"},
		{"four levels and a row of signs", set(fewValues(8, 300, four...), 0, slices.Repeat([]float32{2, -2}, 150)...),
			"int2-values int2odd row", ""},
		{"four levels and a row of eight", set(fewValues(8, 8, four...), 0, eight...), "int3-values int3 row", ""},
		{"eight levels", fewValues(8, 300, eight...), "int3-values int3 row", ""},
		{"eight levels and a row of nine", set(fewValues(8, 9, eight...), 3, append(eight, 4)...),
			"int4-values int4 row", ""},
		{"eight levels but for one weight", set(fewValues(8, 300, eight...), 3, 0.3), "", "row 3"},
		{"floats", set(fewValues(8, 5, 1, 1.1, 1.7, 4.3, 9.7), 0, 1, 1.1, 1.7, 4.3, 9.7), "", ""},
	} {
		path := filepath.Join(t.TempDir(), "weights.safetensors")
		writeWeights(t, path, map[string]raw{"w": c.w})
		p, err := NewPlan(context.Background(), path, plain(packed.Recipe{AllowLossy: true}))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		// the last note reports the missing model
		row, notes := p.Tensors[0], strings.Join(p.Notes[:len(p.Notes)-1], "; ")
		p.Close()
		if c.rule == "" {
			if row.Rule != "absmean" || (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) {
				t.Errorf("%s: rule %s, notes %q", c.what, row.Rule, notes)
			}
			continue
		}
		if got := row.Rule + " " + row.Alphabet + " " + row.Scale; got != c.rule || row.Note != c.note || notes != "" {
			t.Errorf("%s: %s with note %q and notes %q; want %s, %q", c.what, got, row.Note, notes, c.rule, c.note)
		}
		if exact := row.RelError != nil; exact != (c.note == "") {
			t.Errorf("%s: relative error %v", c.what, row.RelError)
		}
	}
}

// groups is a matrix whose rows hold the values, each group of g columns times its own scale.
func groups(rows, k, g int, values ...float32) raw {
	var w []float32
	for row := range rows {
		for col := range k {
			w = append(w, values[(row+col)%len(values)]*(0.0625+0.03125*float32(row+col/g)))
		}
	}
	return bf16([]int64{int64(rows), int64(k)}, w...)
}

// TestAutoGroups: weights that are ±s, or ±s and 0, with a different s per group of columns, are packed exactly; a
// single value that does not fit leaves floats.
func TestAutoGroups(t *testing.T) {
	other := groups(8, 300, 128, 1, -1)
	copy(other.data[2*(300*5+200):], []byte{1, 0x3f})
	minus := groups(4, 256, 64, 1, 0, -1)
	copy(minus.data[2*64:], []byte{0, 0x80}) // −0 counts as 0
	for _, c := range []struct {
		w    raw
		want string
	}{
		{groups(8, 300, 128, 1, -1), "sign-values int1 group:128"},
		{groups(8, 1024, 256, 1, -1), "sign-values int1 group:256"},
		{groups(8, 300, 64, 1, -1, 0), "ternary-values ternary group:64"},
		{groups(8, 96, 32, 1, -1, 0), "ternary-values ternary group:32"},
		{minus, "ternary-values ternary group:64"},
		{groups(8, 300, 128, 1, 1), "sign-values int1 group:128"},
		{other, "absmean ternary tensor"},
	} {
		path := filepath.Join(t.TempDir(), "weights.safetensors")
		writeWeights(t, path, map[string]raw{"w": c.w})
		p := newPlan(t, path, plain(packed.Recipe{AllowLossy: true}))
		r := p.Tensors[0]
		if got := r.Rule + " " + r.Alphabet + " " + r.Scale; got != c.want ||
			(r.RelError != nil) != (c.want[0] != 'a') {
			t.Errorf("%s with error %v, want %s", got, r.RelError, c.want)
		}
	}
}

// TestBonsai: checkpoints of floats that hold one magnitude for every 128 columns of a row are packed; unpacking to F32
// restores every value, and unpacking to BF16 reports the rounded tensors. Embedding and head are packed too, unless
// the recipe chooses the format of the head.
func TestBonsai(t *testing.T) {
	for _, name := range []string{"bonsai-bit1-f16-tied", "bonsai-bit1-bf16-untied", "bonsai-ternary-f16-tied",
		"bonsai-ternary-bf16-untied"} {
		source := shared.Path(t, "data/packed/"+name)
		dir := t.TempDir()
		file := filepath.Join(dir, "packed.safetensors")
		p := newPlan(t, source, Options{Recipe: packed.Recipe{Golden: "none"}})
		for _, r := range p.Tensors {
			if len(r.Shape) == 2 && (r.Layout == "" || r.RelError == nil || *r.RelError != 0) {
				t.Errorf("%s: %s: %+v", name, r.Tensor, r)
			}
		}
		for _, r := range newPlan(t, source,
			Options{Recipe: packed.Recipe{Golden: "none", Head: packed.HeadInt8}}).Tensors {
			if r.Tensor == "model.embed_tokens.weight" && r.Layout != "" ||
				r.Tensor == packed.HeadName && r.Rule != "int8" {
				t.Errorf("%s, --head int8: %+v", name, r)
			}
		}
		if _, err := p.Run(context.Background(), file); err != nil {
			t.Fatal(err)
		}
		for form, want := range map[Form]bool{FormF32: false, FormBF16: strings.Contains(name, "f16-tied")} {
			out := filepath.Join(dir, string(form))
			s, err := Unpack(context.Background(), file, out, UnpackOptions{Form: form})
			if err != nil || (s.Rounded > 0) != want {
				t.Errorf("%s as %s: %+v, %v", name, form, s, err)
			}
			if form == FormF32 {
				sameFloats(t, source, out)
			}
		}
	}
}

// sameFloats compares every tensor of two checkpoints, widened to float32.
func sameFloats(t *testing.T, a, b string) {
	t.Helper()
	read := func(dir string) map[string][]float32 {
		c, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out := map[string][]float32{}
		for _, x := range c.Tensors() {
			raw := make([]byte, x.Size)
			if err := c.ReadAt(x, raw, 0); err != nil {
				t.Fatal(err)
			}
			d := quantize.DType(x.DType)
			out[x.Name] = make([]float32, len(raw)/d.Size())
			d.Widen(out[x.Name], raw)
		}
		return out
	}
	want, got := read(a), read(b)
	for name, w := range want {
		if !slices.Equal(w, got[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestReplacedZerosAreReported: the error that they make is in the report, and the packed file holds them as +1.
func TestReplacedZerosAreReported(t *testing.T) {
	w := fewValues(8, 300, 1, -1)
	copy(w.data[600*5:], []byte{0, 0})
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{"w": w})
	p := newPlan(t, path, Options{Report: true})
	if _, err := p.Run(context.Background(), filepath.Join(t.TempDir(), "packed.safetensors")); err != nil {
		t.Fatal(err)
	}
	r := p.Report()[0]
	if r.RelError == nil || *r.RelError <= 0 || *r.RelError > 0.1 || len(r.Codes) != 2 ||
		r.Codes[0].Count+r.Codes[1].Count != 2400 {
		t.Errorf("%+v", r)
	}
}
