package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify"
)

// llamaFile is a GGUF of a Llama with float matrices, and with permuted rows of queries and keys.
func llamaFile(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "llama")
	tinymodel.Miniature(t, "llama-3-8b", dir)
	path, _ := exported(t, packedOf(t, dir, packed.Recipe{Quant: "none"}))
	return path
}

// llamaOf makes a checkpoint of a Llama of one layer with eight heads.
func llamaOf(t *testing.T, hidden, intermediate int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "llama")
	tinymodel.MiniatureWith(t, "llama-3-8b", dir, func(o *synth.Options) {
		for from, to := range map[string]string{
			`"hidden_size": 4096`:        fmt.Sprintf(`"hidden_size": %d`, hidden),
			`"intermediate_size": 14336`: fmt.Sprintf(`"intermediate_size": %d`, intermediate),
			`"num_hidden_layers": 32`:    `"num_hidden_layers": 1`,
			`"num_attention_heads": 32`:  `"num_attention_heads": 8`,
			`"vocab_size": 128256`:       `"vocab_size": 320`,
			`"bos_token_id": 128000`:     `"bos_token_id": 1`,
			`"eos_token_id": 128001`:     `"eos_token_id": 2`,
		} {
			o.Config = bytes.ReplaceAll(o.Config, []byte(from), []byte(to))
		}
		o.Mini, o.Stop = false, nil
	})
	return dir
}

// TestHeadsInPieces: permuted rows come out right where a matrix is written in several pieces, which have whole panels
// and whole heads, and a damaged code is noticed.
func TestHeadsInPieces(t *testing.T) {
	dir := llamaOf(t, 640, 64)
	source := packedOf(t, dir, packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true})
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, ok := f.Manifest().Entry("model.layers.0.self_attn.q_proj.weight")
	if s := e.MatrixShape(); !ok || s.M*s.K < 3*pieceWeights {
		t.Fatalf("%v", s)
	}
	exported(t, source)
	own := *e
	own.CodesSHA = strings.Repeat("0", 64)
	u, err := unitsOf(f, e)
	if err != nil {
		t.Fatal(err)
	}
	err = form{kind: gguf.Q4_0}.transcode(t.Context(), f, &own, u, 8, io.Discard)
	if !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("damaged codes: %v", err)
	}
}

// TestIntegerBlocks: integers of 3, 5 and 6 bits, and iq4nl, go into the narrowest blocks with a float16 scale that
// hold them.
// Scales of rows are float16 numbers too: BF16 weights divided by a power of two.
func TestIntegerBlocks(t *testing.T) {
	dir := llamaOf(t, 64, 96)
	for quant, want := range map[string]gguf.Type{"int3": gguf.Q4_0, "int5": gguf.Q5_0, "int6": gguf.Q8_0,
		"iq4nl": gguf.IQ4_NL} {
		for _, scale := range []string{"group:32", "group:64", "row"} {
			if quant == "iq4nl" && scale == "row" {
				continue // 1/127 of a weight
			}
			target, _ := exported(t, packedOf(t, dir, packed.Recipe{Quant: quant, Scale: scale, AllowLossy: true}))
			seen := 0
			for _, x := range headerOf(t, target).Tensors {
				if strings.HasSuffix(x.Name, "ffn_gate.weight") {
					if seen++; x.Type != want {
						t.Errorf("%s %s: %v, want %v", quant, scale, x.Type, want)
					}
				}
			}
			if seen == 0 {
				t.Errorf("%s %s: no gate in the file", quant, scale)
			}
		}
	}
}

// TestHeadOfSixBits: a head of six bits goes into the blocks that layers of its codes have.
func TestHeadOfSixBits(t *testing.T) {
	dir := llamaOf(t, 64, 96)
	target, _ := exported(t, packedOf(t, dir, packed.Recipe{Quant: "int4", Scale: "group:32", Head: packed.HeadInt6,
		AllowLossy: true}))
	for _, x := range headerOf(t, target).Tensors {
		if x.Name == "output.weight" {
			if x.Type != gguf.Q8_0 {
				t.Errorf("%v, want %v", x.Type, gguf.Q8_0)
			}
			return
		}
	}
	t.Error("no head in the file")
}

// inBlocks rewrites a GGUF with other data for every matrix that has whole blocks, and returns the data by tensor.
func inBlocks(t *testing.T, path string, kind gguf.Type, blocks func(values []float32, s pack.Shape) []byte) (string,
	map[string][]byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	infos, data := slices.Clone(h.Tensors), map[string][]byte{}
	for i, x := range infos {
		stored := file[h.DataStart+x.Begin:][:x.Size]
		if c, _ := kind.Codes(); len(x.Shape) == 2 && x.Columns()%int64(c.Group) == 0 {
			values := make([]float32, x.Weights())
			for m := range x.Shape[0] {
				err := x.Type.Floats(values[m*x.Columns():][:x.Columns()],
					stored[m*x.Type.RowSize(x.Columns()):][:x.Type.RowSize(x.Columns())])
				if err != nil {
					t.Fatal(err)
				}
			}
			infos[i].Type, stored = kind, blocks(values, pack.Shape{M: int(x.Shape[0]), K: int(x.Columns())})
		}
		data[x.Name] = stored
	}
	if err := gguf.Place(infos); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, h.Keys, infos)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range infos {
		if err := w.Write(x.Name, data[x.Name]); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "blocks.gguf")
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out, data
}

// TestBlockRoundTrip: codes and scales imported from a GGUF in blocks equal package pack's decoding of its bytes, in
// the row order of the checkpoint, and an export reproduces the bytes.
func TestBlockRoundTrip(t *testing.T) {
	llama := llamaFile(t)
	bitnet, _ := exported(t, packedOf(t, exports.Small(t), packed.Recipe{Quant: "none"}))
	for _, c := range []struct {
		file string
		kind gguf.Type
		name string
	}{
		{llama, gguf.Q4_0, "q4_0"}, {llama, gguf.Q8_0, "q8_0"}, {llama, gguf.MXFP4, "mxfp4"},
		{llama, gguf.Q2_0, "q2_0"},
		{bitnet, gguf.Q1_0, "q1_0"}, {bitnet, gguf.Q2_0, "q2_0"},
	} {
		blocks, err := pack.OpenBlocks(c.name)
		if err != nil {
			t.Fatal(err)
		}
		path, data := inBlocks(t, c.file, c.kind, func(values []float32, s pack.Shape) []byte {
			b := quantized(t, blocks, values, s)
			if c.kind == gguf.Q8_0 {
				b[2] = 0x80 // code −128, which Quantize does not write
			}
			return b
		})
		source := packedOf(t, path, packed.Recipe{})
		sameBlocks(t, source, path, blocks, data)
		if c.file == llama { // of seconds
			verified(t, source, path)
		}
		again, _ := exported(t, source)
		sameBytes(t, again, data)
		same(t, source, packedOf(t, again, packed.Recipe{}))
	}
}

// sameBytes demands the bytes of every tensor of a GGUF.
func sameBytes(t *testing.T, path string, data map[string][]byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	for _, x := range h.Tensors {
		if !bytes.Equal(file[h.DataStart+x.Begin:][:x.Size], data[x.Name]) {
			t.Errorf("%s as %s has other bytes", x.Name, x.Type)
		}
	}
}

func quantized(t *testing.T, blocks pack.Blocks, values []float32, s pack.Shape) []byte {
	t.Helper()
	size, err := blocks.PackedSize(s)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, size)
	if err := blocks.Quantize(out, s, values); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameBlocks compares the entries of a packed file with blocks.
func sameBlocks(t *testing.T, path, from string, blocks pack.Blocks, data map[string][]byte) {
	t.Helper()
	f, d := tinymodel.Open(t, path)
	arch, err := hf.ArchitectureOf(d.Family)
	if err != nil {
		t.Fatal(err)
	}
	a, err := pack.FindAlphabet(blocks.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, x := range headerOf(t, from).Tensors {
		if c, ok := x.Type.Codes(); ok && c.Alphabet.Name == a.Name {
			count++
		}
	}
	if len(f.Manifest().Packed) != count || count < 8 {
		t.Errorf("%s: %d matrices are packed, %d are stored in blocks", blocks.Spec().Name,
			len(f.Manifest().Packed), count)
	}
	for i := range f.Manifest().Packed {
		e := &f.Manifest().Packed[i]
		name, heads, err := arch.Store(e.Name, d.Heads, d.KVHeads)
		if err != nil {
			t.Fatal(err)
		}
		want, scales := pack.NewMatrix(e.MatrixShape(), a), make([]float32, e.Weights()/int64(blocks.BlockSize()))
		if err := blocks.UnpackBlocks(want, scales, data[name]); err != nil {
			t.Fatal(err)
		}
		got, err := packed.Codes(f, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		own, err := unitsOf(f, e)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Codes {
			m, k := i/want.K, i%want.K
			from := hf.RowIn(m, want.M, heads)*want.K + k
			if scale := own.at(m, k).scale; got.Codes[i] != want.Codes[from] ||
				scale != scales[from/blocks.BlockSize()] {
				t.Fatalf("%s: row %d, column %d: %d times %v, want %d times %v", e.Name, m, k, got.Codes[i], scale,
					want.Codes[from], scales[from/blocks.BlockSize()])
			}
		}
	}
}

// verified compares a packed file with the GGUF that it was made from, and runs it.
func verified(t *testing.T, path, source string) {
	t.Helper()
	r, err := verify.Run(t.Context(), path, verify.Options{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if c.Verdict == verify.Fail {
			t.Errorf("%s: %s: %s", c.Group, c.Name, c.Reason)
		}
	}
}

// q4_1 are blocks of 32 weights with a scale, a minimum, and codes that are all different.
func q4_1(s pack.Shape, scale, minimum float32) (b []byte) {
	for range s.M * s.K / 32 {
		b = binary.LittleEndian.AppendUint16(b, float16.Narrow(scale))
		b = binary.LittleEndian.AppendUint16(b, float16.Narrow(minimum))
		for i := range 16 {
			b = append(b, byte(i|(15-i)<<4))
		}
	}
	return b
}

// TestMinima: minima that are multiples of their scales become zero points, others are kept; both exactly, and in both
// directions between a packed file and GGUF.
func TestMinima(t *testing.T) {
	float := llamaFile(t)
	for name, c := range map[string]struct {
		scale, minimum float32
		zero           int8 // of codes that are less 8
		kept           bool
	}{
		"in the middle":        {0.25, -2, 0, false},
		"in the range":         {0.25, -1.75, -1, false},
		"no zero in the range": {0.25, 1, -12, false},
		"negative scale":       {-0.25, 2, 0, false},
		"far away":             {0.0009765625, -0.134765625, 0, true}, // zero 138 is more than a byte
		"not a multiple":       {0.25, -1.8125, 0, true},
		"of the other sign":    {-0.25, 1.8125, 0, true},
		"all the same":         {0, -1.5, 0, false},
		"all zero":             {0, 0, 0, false},
	} {
		path, data := inBlocks(t, float, gguf.Q4_1,
			func(_ []float32, s pack.Shape) []byte { return q4_1(s, c.scale, c.minimum) })
		source := packedOf(t, path, packed.Recipe{})
		if _, err := VerifyGGUF(t.Context(), path, source); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		verified(t, source, path)
		f, err := packed.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		e, ok := f.Manifest().Entry("model.layers.1.mlp.up_proj.weight")
		if !ok || e.Min != c.kept || e.Zero != (c.zero != 0) || (e.Scale.Kind == packed.ScaleTensor) == c.kept ||
			e.Layout.Alphabet != "int4" {
			t.Fatalf("%s: %+v", name, e)
		}
		zeros, err := packed.Zeros(f, e)
		if err != nil || c.zero != 0 && zeros[0] != c.zero {
			t.Errorf("%s: zero points %v, %v", name, zeros, err)
		}
		minima, err := packed.Minima(f, e)
		if err != nil || c.kept && slices.ContainsFunc(minima, func(m float32) bool { return m != c.minimum }) {
			t.Errorf("%s: minima %v, %v", name, minima, err)
		}
		if c.kept || c.zero != 0 {
			again, _ := exported(t, source)
			sameBytes(t, again, data)
			same(t, source, packedOf(t, again, packed.Recipe{}))
		}
		f.Close()
	}
}

// TestLowestCode: in a block of Q4_1 the lowest code of an alphabet with minima is 0.
func TestLowestCode(t *testing.T) {
	m := pack.NewMatrix(pack.Shape{M: 1, K: 32}, pack.Int3)
	for i := range m.Codes {
		m.Codes[i] = pack.Int3.Values[i%8]
	}
	u := units{scales: []float32{0.5}, zeros: []int8{-4}, minima: []float32{-1.75}, perRow: 1}
	b := make([]byte, 20)
	if err := encodeQ4_1(b, m, u); err != nil {
		t.Fatal(err)
	}
	scale, minimum := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])
	if scale != 0x3800 || minimum != 0xbf00 { // 0.5 and −1.75
		t.Errorf("scale %#x, minimum %#x", scale, minimum)
	}
	for j, both := range b[4:] {
		if want := byte(j%8) * 0x11; both != want {
			t.Errorf("byte %d is %#x, want %#x", j, both, want)
		}
	}
}

// TestOtherMinima: every minimum of a packed file is verified against its source.
func TestOtherMinima(t *testing.T) {
	const name = "blk.1.ffn_down.weight"
	path, _ := inBlocks(t, llamaFile(t), gguf.Q4_1,
		func(_ []float32, s pack.Shape) []byte { return q4_1(s, 0.25, -1.8125) })
	source := packedOf(t, path, packed.Recipe{})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	at := slices.IndexFunc(h.Tensors, func(x gguf.TensorInfo) bool { return x.Name == name })
	file[h.DataStart+h.Tensors[at].Begin+2] ^= 1 // the lowest bit of the first minimum
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyGGUF(t.Context(), path, source); err == nil ||
		!strings.Contains(err.Error(), "layers.1.mlp.down_proj") {
		t.Errorf("the GGUF against the packed file: %v", err)
	}
	r, err := verify.Run(t.Context(), source, verify.Options{Level: verify.Source, Source: path})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Checks, func(c verify.Check) bool {
		return c.Verdict == verify.Fail && c.Name == "model.layers.1.mlp.down_proj.weight" &&
			strings.Contains(c.Reason, "minimum")
	}) {
		t.Errorf("the packed file against the GGUF: %s", r.Verdict())
	}
}

// TestCode2: Q2_0 has a code 2, which published files do not use. Matrices that do have an alphabet of their own.
func TestCode2(t *testing.T) {
	blocks, err := pack.OpenBlocks("q2_0")
	if err != nil {
		t.Fatal(err)
	}
	path, _ := inBlocks(t, llamaFile(t), gguf.Q2_0, func(values []float32, s pack.Shape) []byte {
		b := quantized(t, blocks, values, s)
		b[2] = 0xff
		return b
	})
	source := packedOf(t, path, packed.Recipe{})
	verified(t, source, path)
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if e, ok := f.Manifest().Entry("model.embed_tokens.weight"); !ok || e.Layout.Alphabet != "int2q" {
		t.Errorf("%+v", e)
	}
	again, _ := exported(t, source)
	same(t, source, packedOf(t, again, packed.Recipe{}))
}

// TestUnheldCodes: codes that the chosen layout cannot hold stay floats, and the plan reports it.
func TestUnheldCodes(t *testing.T) {
	r := seed.Rand(t)
	path, _ := inBlocks(t, wideFile(t), gguf.Q2_K,
		func(_ []float32, s pack.Shape) []byte { return randomBlocks(r, gguf.Q2_K, s, true) })
	plan, err := convert.NewPlan(t.Context(), path, convert.Options{Recipe: packed.Recipe{Layout: "tl1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	for _, r := range plan.Tensors {
		if embed := r.Tensor == "model.embed_tokens.weight"; len(r.Shape) == 2 && (r.Rule == "keep") == embed ||
			embed && r.Layout != convert.DefaultLayout {
			t.Errorf("%+v", r)
		}
	}
	if !slices.ContainsFunc(plan.Notes,
		func(n string) bool { return strings.Contains(n, "exactly: 8, kept as floats") }) {
		t.Errorf("%q", plan.Notes)
	}
}

// TestRuledBlocks: codes in blocks have the layout that a rule names, those of the embedding and the head too; a rule
// whose layout cannot have them is refused, with its number.
func TestRuledBlocks(t *testing.T) {
	blocks, err := pack.OpenBlocks("q4_0")
	if err != nil {
		t.Fatal(err)
	}
	path, _ := inBlocks(t, llamaFile(t), gguf.Q4_0, func(values []float32, s pack.Shape) []byte {
		return quantized(t, blocks, values, s)
	})
	for match, tensor := range map[string]string{"*": "model.layers.0.mlp.up_proj.weight",
		"*q_proj*": "model.layers.0.self_attn.q_proj.weight", "*embed*": "model.embed_tokens.weight",
		"lm_*": "lm_head.weight", "lm_head.weight": "lm_head.weight"} {
		for layout, held := range map[string]bool{"vnni4i-64": true, "vnni4": false, "i2": false} {
			plan, err := convert.NewPlan(t.Context(), path, convert.Options{Recipe: packed.Recipe{
				Rules: []packed.Rule{{Match: "*norm*", Keep: true}, {Match: match, Layout: layout}}}})
			if !held {
				if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), `holds no "int4" codes`) ||
					!strings.Contains(err.Error(), fmt.Sprintf("rule 2 of the recipe (match: %q)", match)) {
					t.Errorf("%s in %s: %v", match, layout, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s in %s: %v", match, layout, err)
				continue
			}
			at := slices.IndexFunc(plan.Tensors, func(r convert.Row) bool { return r.Tensor == tensor })
			if r := plan.Tensors[at]; r.Layout != layout {
				t.Errorf("%s in %s: %+v", match, layout, r)
			}
			plan.Close()
		}
	}
}

// TestMiniCPM: its factors survive the way to a GGUF and back.
func TestMiniCPM(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "minicpm")
	tinymodel.Miniature(t, "minicpm-2b", dir)
	source := packedOf(t, dir, packed.Recipe{Quant: "none"})
	path, _ := exported(t, source)
	var factors [2][3]float32
	for i, name := range []string{source, packedOf(t, path, packed.Recipe{Quant: "none"})} {
		f, err := packed.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := packed.Describe(f)
		if err != nil {
			t.Fatal(err)
		}
		factors[i] = [3]float32{d.EmbedScale, d.ResidualScale, d.LogitDivisor}
		f.Close()
	}
	if factors[0] != factors[1] || slices.Contains(factors[0][:], 0) {
		t.Errorf("%v and %v", factors[0], factors[1])
	}
}

// TestRopeFactors: frequency factors survive the round trip through GGUF, also Llama 3 factors with position counts.
func TestRopeFactors(t *testing.T) {
	for _, like := range []string{"phi-3-mini-128k", "minicpm4", "llama-3.2-1b"} {
		source := packedOf(t, forLlamaCpp(t, like), packed.Recipe{Quant: "none"})
		path, _ := exported(t, source)
		back := packedOf(t, path, packed.Recipe{Quant: "none"})
		want, got := ropeOf(t, source), ropeOf(t, back)
		if like != "llama-3.2-1b" {
			if a, b := want.LongRope, got.LongRope; b == nil || !slices.Equal(narrowed(a.Short), narrowed(b.Short)) ||
				a.Extension != b.Extension || a.Attention != b.Attention ||
				want.OriginalMaxPositions != got.OriginalMaxPositions {
				t.Errorf("%s: %+v, %+v", like, b, a)
			}
			continue
		}
		again, _ := exported(t, back)
		if got.LongRope == nil || got.LongRope.Attention != 1 ||
			!reflect.DeepEqual(got, ropeOf(t, packedOf(t, again, packed.Recipe{Quant: "none"}))) {
			t.Errorf("%s: %+v", like, got)
		}
		largest, _, _ := distance(logitsOf(t, source, []int{1, 30, 40, 50}), logitsOf(t, back, []int{1, 30, 40, 50}))
		if largest > 1e-5 {
			t.Errorf("%s: logits differ by %v", like, largest)
		}
	}
}

func ropeOf(t *testing.T, path string) model.Rope {
	t.Helper()
	_, d := tinymodel.Open(t, path)
	return d.Rope
}

// TestBadBlocks: for scales that are not numbers, and codes that no program writes, the error names tensor and row;
// nothing is written.
func TestBadBlocks(t *testing.T) {
	float := llamaFile(t)
	for name, c := range map[string]struct {
		kind gguf.Type
		name string
		at   int // from the end of a matrix
		with byte
		says string
	}{
		"Q4_0 infinite": {gguf.Q4_0, "q4_0", 18, 0x7c, "its scale"},
		"Q8_0 NaN":      {gguf.Q8_0, "q8_0", 34, 0x7e, "its scale"},
		"MXFP4 NaN":     {gguf.MXFP4, "mxfp4", 17, 0xff, "its scale"},
	} {
		blocks, err := pack.OpenBlocks(c.name)
		if err != nil {
			t.Fatal(err)
		}
		path, _ := inBlocks(t, float, c.kind, func(values []float32, s pack.Shape) []byte {
			b := quantized(t, blocks, values, s)
			at := len(b) - c.at
			if c.with == 0x7c || c.with == 0x7e {
				at++ // the high byte
			}
			b[at] = c.with
			return b
		})
		_, err = convert.NewPlan(t.Context(), path, convert.Options{})
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "embed_tokens") || !strings.Contains(err.Error(), "row 319") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
