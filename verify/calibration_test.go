package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
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

// TestCalibratedZeroScales: a scale that calibration is said to have chosen is zero only where the source is, whatever
// the codes (N37).
func TestCalibratedZeroScales(t *testing.T) {
	const name = "model.layers.0.self_attn.q_proj.weight"
	source := filepath.Join(t.TempDir(), "model")
	tinymodel.Miniature(t, "llama-3.2-1b", source)
	zeroFirst(t, filepath.Join(source, "model.safetensors"), name, 32)
	text := strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)
	for quant, zero := range map[string]int8{"iq4nl": 1, "int4": 0} { // the code of a zero
		for _, method := range []packed.Method{packed.MeanSquare, packed.GPTQ} {
			path, o := filepath.Join(t.TempDir(), "m.safetensors"), Options{Source: source}
			p, err := convert.NewPlan(t.Context(), source, convert.Options{Method: method,
				Recipe: packed.Recipe{Quant: quant, Scale: "group:32", Golden: "none", AllowLossy: true,
					Include: []string{"*layers.0.*"}},
				Calibration: []convert.Document{{Text: text}}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := p.Run(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			s := newSealer(t, path)
			at := s.tensor(name + packed.ScaleSuffix)
			for unit, zeros := range []bool{true, false} {
				b := bytes.Clone(s.good)
				clear(b[at.begin+2*unit:][:2])
				s.setCodes(t, b, name, 32*unit, 32*(unit+1), zero)
				write(t, path, s.seal(b))
				bad := failed(run(t, path, o))
				refused := len(bad) == 1 && bad[0].Rule == "N37" && bad[0].Level == Source
				if zeros && len(bad) > 0 || !zeros && !refused {
					t.Errorf("%s, %s: a zero scale, of zeros: %t: %v", quant, method, zeros, bad)
				}
			}
		}
	}
}

// zeroFirst makes the first weights of a BF16 tensor zeros.
func zeroFirst(t *testing.T, path, name string, weights int) {
	t.Helper()
	data := read(t, path)
	end := 8 + int(binary.LittleEndian.Uint64(data))
	var header map[string]struct {
		DType   string `json:"dtype"`
		Offsets []int  `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:end], &header); err != nil {
		t.Fatal(err)
	}
	if header[name].DType != "BF16" {
		t.Fatalf("%s is %q", name, header[name].DType)
	}
	clear(data[end+header[name].Offsets[0]:][:2*weights])
	write(t, path, data)
}

// setCodes gives one code to the first row's columns from one on to another.
func (s *sealer) setCodes(t *testing.T, b []byte, name string, from, to int, code int8) {
	t.Helper()
	for _, e := range s.parsed.Packed {
		if e.Name != name {
			continue
		}
		l, err := pack.Open(e.Layout)
		if err != nil {
			t.Fatal(err)
		}
		a, err := pack.FindAlphabet(e.Layout.Alphabet)
		if err != nil {
			t.Fatal(err)
		}
		m, bytes := pack.NewMatrix(e.MatrixShape(), a), b[s.tensor(name+packed.PackedSuffix).begin:][:e.Bytes]
		if err := l.Unpack(m, bytes); err != nil {
			t.Fatal(err)
		}
		for k := from; k < to; k++ {
			m.Codes[k] = code
		}
		if err := l.Pack(bytes, m); err != nil {
			t.Fatal(err)
		}
	}
}
