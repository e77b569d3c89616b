package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/half"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// sealer changes packed files and gives them the digests that fit: what a careful forger would do.
type sealer struct {
	good    []byte
	text    []byte // of the manifest, as it stands in the header
	parsed  *packed.Manifest
	tensors []place
}

func newSealer(t testing.TB, path string) *sealer {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := read(t, path)
	text, err := f.Manifest().Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return &sealer{b, text, f.Manifest(), places(t, f, b)}
}

// tensor returns the stored tensor of that name.
func (s *sealer) tensor(name string) place {
	for _, p := range s.tensors {
		if p.name == name {
			return p
		}
	}
	panic("no tensor " + name)
}

// seal returns changed data with every digest corrected: of tensors, of codes where they still decode, of the manifest.
func (s *sealer) seal(b []byte) []byte {
	header := 8 + int(binary.LittleEndian.Uint64(b))
	text := s.text
	replace := func(old, new string) {
		text = bytes.ReplaceAll(text, []byte(old), []byte(new))
	}
	changed := func(p place) bool { return !bytes.Equal(b[p.begin:p.end], s.good[p.begin:p.end]) }
	for _, p := range s.tensors {
		if changed(p) {
			replace(p.digest, sum(b[p.begin:p.end]))
		}
	}
	for i := range s.parsed.Packed {
		e := &s.parsed.Packed[i]
		p := s.tensor(e.Name + packed.PackedSuffix)
		if !changed(p) {
			continue
		}
		l, err := pack.Open(e.Layout)
		if err != nil {
			continue
		}
		a, err := pack.FindAlphabet(e.Layout.Alphabet)
		if err != nil {
			continue
		}
		m := pack.NewMatrix(e.MatrixShape(), a)
		if l.Unpack(m, b[p.begin:p.begin+e.Bytes]) == nil {
			replace(e.CodesSHA, packed.CodesDigest(m))
		}
	}
	return s.sealManifest(b, header, text)
}

// sealManifest puts another manifest of the same length into the header.
func (s *sealer) sealManifest(b []byte, header int, text []byte) []byte {
	quote := func(text []byte) []byte {
		q, err := json.Marshal(string(text))
		if err != nil {
			panic(err)
		}
		return q[1 : len(q)-1]
	}
	head := bytes.Replace(b[:header], quote(s.text), quote(text), 1)
	head = bytes.Replace(head, []byte(sum(s.text)), []byte(sum(text)), 1)
	return append(head, b[header:]...)
}

func sum(b []byte) string {
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:])
}

// bare writes a checkpoint of weights alone and returns its path.
func bare(t testing.TB, dtype string, m, k int, weight func(i int) float32) string {
	t.Helper()
	size := map[string]int{"F32": 4, "F16": 2, "BF16": 2}[dtype]
	data := make([]byte, 0, m*k*size)
	for i := range m * k {
		w := weight(i)
		switch dtype {
		case "F32":
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(w))
		case "BF16":
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(nearest(float64(w), dtype))>>16))
		case "F16":
			data = binary.LittleEndian.AppendUint16(data, halfBits(half.Round(float32(math.Abs(float64(w)))), w < 0))
		}
	}
	header, err := json.Marshal(map[string]any{"w": map[string]any{"dtype": dtype, "shape": []int{m, k},
		"data_offsets": []int{0, len(data)}}})
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/weights.safetensors"
	write(t, path, append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...))
	return path
}

// halves are the patterns of all values of binary16 that are not negative.
var halves = sync.OnceValue(func() map[float32]uint16 {
	all := map[float32]uint16{}
	for h, v := range half.Values()[:1<<15] {
		all[v] = uint16(h)
	}
	return all
})

// halfBits is the binary16 of a value that is one.
func halfBits(v float32, negative bool) uint16 {
	h, ok := halves()[v]
	if !ok {
		panic("no binary16")
	}
	if negative {
		h |= 1 << 15
	}
	return h
}

// TestForgery makes random edits of packed files and corrects all digests. The codes level refuses what no layout
// writes, the source level sees every other change of a weight or scale: no change goes unnoticed.
func TestForgery(t *testing.T) {
	edits := 200
	if long.All {
		edits = 250_000 // a million in all
	}
	r := rand.New(rand.NewPCG(4, 2))
	weights := make([]float32, 37*50)
	for i := range weights {
		weights[i] = float32(r.NormFloat64())
	}
	source := bare(t, "F32", 37, 50, func(i int) float32 { return weights[i] })
	for i, layout := range []string{"vnni4i", "i1", "i2", "blocked"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(4, uint64(i)))
			s := newSealer(t, tinymodel.Converted(t, source,
				packed.Recipe{Quant: "absmean", Scale: "row", Layout: layout, Golden: "none", AllowLossy: true}))
			refused, reported := 0, 0
			forged := newScratch(t)
			for range edits {
				b := bytes.Clone(s.good)
				p := s.tensor([]string{"w.packed", "w.packed", "w.scale"}[r.IntN(3)])
				at := p.begin + r.IntN(p.end-p.begin)
				b[at] ^= byte(1 + r.IntN(255))
				forged.put(t, s.seal(b))
				bad := failed(run(t, forged.Name(), Options{Source: source, Threads: 1}))
				switch {
				case len(bad) == 0:
					t.Fatalf("byte %d of %s was changed unseen", at-p.begin, p.name)
				case bad[0].Level == Codes && (bad[0].Rule == "F15" || bad[0].Rule == "F9"):
					refused++
				case bad[0].Level == Source && bad[0].Group == "codes and scales" && bad[0].Name == "w":
					reported++
				default:
					t.Fatalf("byte %d of %s: %v", at-p.begin, p.name, bad)
				}
			}
			t.Logf("%d edits refused, %d reported by the source", refused, reported)
			if refused == 0 || reported == 0 {
				t.Errorf("%d refused, %d reported: one of the ways was not tried", refused, reported)
			}
		})
	}
}

// TestForgedGolden: golden outputs that somebody made up do not pass, whatever their digest.
func TestForgedGolden(t *testing.T) {
	m := small(t)
	honest := m.Golden(nil)
	for _, c := range []struct {
		name   string
		change func(r *golden.Record)
		level  Level
		says   string
	}{
		{"value", func(r *golden.Record) { r.Products[2].Values[3]++ }, Kernel, "the reference agrees with the kernel"},
		{"digest", func(r *golden.Record) { r.Products[5].Digest = sum(nil) }, Kernel,
			"the reference agrees with the kernel"},
		{"missing tensor", func(r *golden.Record) { r.Products = r.Products[2:] }, File, "4 products and 0 positions"},
		{"missing batch", func(r *golden.Record) { r.Products = slices.Delete(r.Products, 1, 2) }, File,
			"5 products and 0 positions"},
		{"no products", func(r *golden.Record) { r.Products = nil }, File, "0 products and 0 positions"},
		{"unknown tensor", func(r *golden.Record) { r.Products[0].Tensor = "d.weight" }, File, `of "d.weight"`},
		{"another seed", func(r *golden.Record) { r.Products[0].Seed++ }, File, "product 0"},
		{"fewer rows", func(r *golden.Record) {
			p := &r.Products[0]
			p.Rows, p.Values = p.Rows[:1], p.Values[:1]
		}, File, "1 vectors, 1 rows"},
		{"no digest", func(r *golden.Record) { r.Products[3].Digest = "" }, File, "product 3"},
		{"repeated", func(r *golden.Record) { r.Products = append(r.Products, r.Products[0]) }, File, "7 products"},
		{"row outside", func(r *golden.Record) { r.Products[0].Rows[0] = 33 }, File, "product 0"},
		{"too few values", func(r *golden.Record) { r.Products[0].Values = r.Products[0].Values[1:] }, File,
			"product 0"},
		{"too many vectors", func(r *golden.Record) { r.Products[0].Vectors = 1 << 30 }, File, "1073741824 vectors"},
		{"logits of no model", func(r *golden.Record) {
			r.Logits = []golden.Logits{{Position: 1, Given: true, TopTokens: []int32{1}, TopLogits: []float32{1}}}
		}, File, "1 positions with logits"},
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
		if len(bad) == 0 || bad[0].Level != c.level || bad[0].Rule != "F8" || !strings.Contains(bad[0].Reason, c.says) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

// TestZeroScale: a scale of zero may cover zeros alone (F9), and no scale may be negative or infinite.
func TestZeroScale(t *testing.T) {
	for _, c := range []struct {
		tensor, scale int
		value         float32
	}{{0, 0, 0}, {1, 20, 0}, {2, 37, 0}, {1, 3, -1}, {2, 0, float32(math.Inf(1))}, {0, 0, float32(math.NaN())}} {
		m := small(t)
		m.Quantized[c.tensor].Scales[c.scale] = c.value
		bad := failed(run(t, file(t, m), Options{Level: Codes}))
		if len(bad) != 1 || bad[0].Rule != "F9" || bad[0].Name != m.Quantized[c.tensor].Name+".scale" {
			t.Errorf("%+v: %v", c, bad)
		}
	}
	m := small(t)
	q := &m.Quantized[2]
	q.Scales[4*2+1] = 0 // row 4, columns 32 … 63
	clear(q.Matrix.Codes[4*64+32 : 4*64+64])
	m = withGolden(t, &sample.Model{Quantized: m.Quantized, Recipe: packed.Recipe{Golden: "kernel"}})
	if bad := failed(run(t, file(t, m), Options{})); len(bad) != 0 {
		t.Errorf("a scale of zero over zeros: %v", bad)
	}
}

// sealHeader writes a file with another manifest, of any length, before the data of a file.
func sealHeader(b, manifest []byte) []byte {
	end := 8 + int(binary.LittleEndian.Uint64(b))
	var header struct {
		Metadata map[string]string `json:"__metadata__"`
	}
	text := bytes.TrimRight(b[8:end], " ")
	if err := json.Unmarshal(text, &header); err != nil {
		panic(err)
	}
	for key, value := range map[string]string{packed.ManifestKey: string(manifest),
		packed.ManifestDigestKey: sum(manifest)} {
		text = bytes.Replace(text, quoted(header.Metadata[key]), quoted(value), 1)
	}
	text = append(text, bytes.Repeat([]byte(" "), (56-len(text)%64+64)%64)...)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, b[end:])
}

// quoted is a JSON string, as the format writes it.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
