// Package vectors reads the golden data of testdata/vectors: weights, and the bytes that the original systems packed
// them to. It is a test helper.
package vectors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// Case is one matrix and its packed bytes, in the terms of package pack.
type Case struct {
	Name     string // file, layout and number
	Layout   string
	Alphabet string // "" = the default of the layout
	Params   map[string]int
	M, K     int
	Codes    []int8    // nil where the source is a matrix of floats
	Floats   []float32 // what an exchange format quantizes
	Dequant  []float32 // what its blocks stand for, where recorded

	hex, sha256 string
	bytes       int
}

// files hold packed bytes; the others of the folder are about something else.
var files = []string{
	"vnni4i_int2.json", "vnni4_int1.json", "vnni4_int8.json", "veclut.json", "bitnet_i2_s.json", "bitnet_tl1.json",
	"bitnet_tl2.json",
	"bitnet_gpu_int2.json", "hf_bitnet_u8.json", "tmac.json", "ggml_blocks.json", "goldens_sha256.json",
}

// Count is the number of cases that Load returns: 72 of layouts of codes, 26 of exchange formats.
const Count = 72 + 26

// Load returns all cases.
func Load(t testing.TB) []Case {
	t.Helper()
	var all []Case
	for _, file := range files {
		data, err := os.ReadFile(shared.Testdata(t, "vectors/"+file))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Cases []map[string]json.RawMessage }
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i, fields := range doc.Cases {
			r := record{t: t, fields: fields}
			c, ok := r.parse()
			if !ok {
				continue
			}
			c.Name = fmt.Sprintf("%s/%d-%s", file, i, c.Layout)
			all = append(all, c)
		}
	}
	if len(all) != Count {
		t.Fatalf("%d vectors, want %d", len(all), Count)
	}
	return all
}

// Check compares packed bytes with the bytes of the original.
func (c *Case) Check(t testing.TB, got []byte) {
	t.Helper()
	if c.hex != "" {
		if h := hex.EncodeToString(got); h != c.hex {
			t.Errorf("packed bytes differ:\n got %s\nwant %s", h, c.hex)
		}
		return
	}
	if len(got) != c.bytes {
		t.Errorf("%d bytes, want %d", len(got), c.bytes)
	}
	if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != c.sha256 {
		t.Errorf("SHA-256 %x, want %s", sum, c.sha256)
	}
}

// record is a case as the file has it. Its keys differ by case alone (bm, BM), so it is read key by key.
type record struct {
	t      testing.TB
	fields map[string]json.RawMessage
}

func (r *record) get(name string, to any) {
	if raw, ok := r.fields[name]; ok {
		if err := json.Unmarshal(raw, to); err != nil {
			r.t.Fatalf("field %s: %v", name, err)
		}
	}
}

func (r *record) number(name string) (n int) {
	r.get(name, &n)
	return n
}

func (r *record) parse() (c Case, ok bool) {
	var layout, generator string
	r.get("layout", &layout)
	r.get("gen", &generator)
	r.get("expected_hex", &c.hex)
	r.get("sha256", &c.sha256)
	r.get("dequant", &c.Dequant)
	c.bytes = r.number("bytes")
	if !r.name(&c, layout) {
		return c, false
	}
	var shape [2]int
	r.get("shape", &shape)
	c.M, c.K = max(shape[0], r.number("m")), max(shape[1], r.number("k"))
	var rows [][]float32
	r.get("x", &rows)
	r.get("weights", &rows)
	var values []float32
	for _, row := range rows {
		values = append(values, row...)
	}
	seed := uint64(r.number("seed"))
	for i := len(values); i < c.M*c.K; i++ {
		values = append(values, generate(generator, seed, uint64(i)))
	}
	if c.exchange() {
		c.Floats = values
		if generator == "int8" {
			for i := range c.Floats {
				c.Floats[i] /= 64
			}
		}
		return c, true
	}
	offset := r.offset(layout)
	for _, v := range values {
		c.Codes = append(c.Codes, int8(v)-offset)
	}
	if layout == "tmac" && r.number("bits") == 1 {
		for i, u := range c.Codes {
			c.Codes[i] = 2*u - 1
		}
	}
	return c, true
}

// offset is what T-MAC's vectors add to a weight: they count codes from zero.
func (r *record) offset(layout string) int8 {
	if bits := r.number("bits"); layout == "tmac" && bits > 1 {
		return 1 << (bits - 1)
	}
	return 0
}

func (c *Case) exchange() bool {
	switch c.Layout {
	case "tq1_0", "tq2_0", "q1_0", "q2_0", "q4_0", "q8_0", "mxfp4":
		return true
	}
	return false
}

// name translates the name and the parameters of a layout. A panel height that nobody uses is passed over.
func (r *record) name(c *Case, layout string) bool {
	bm := r.number("bm")
	panel := func(name string) string {
		if bm == 64 {
			return name + "-64"
		}
		return name
	}
	c.Layout = layout
	switch layout {
	case "vnni4i_int2":
		c.Layout = panel("vnni4i")
	case "vnni4_int1":
		c.Layout, c.Alphabet = panel("vnni4"), "int1"
	case "vnni4_int8":
		c.Layout, c.Alphabet = panel("vnni4"), "int8"
		return bm >= 32
	case "tl1":
		c.Params = map[string]int{"BM": r.number("BM"), "BK": r.number("BK"), "bm": bm}
	case "tl2":
		c.Params = map[string]int{"BM": r.number("BM"), "BK": r.number("BK")}
	case "tmac":
		bits := r.number("bits")
		c.Layout, c.Alphabet = fmt.Sprintf("tmac%d", bits), map[int]string{1: "int1", 2: "int2", 4: "int4"}[bits]
		c.Params = map[string]int{"bm": bm, "kf": r.number("kfactor")}
	case "i2_v", "i1_v":
		c.Layout = layout[:2]
	case "i2_v_4", "i2_v_8", "i1_v_2":
		c.Layout = layout[:2] + "-t" + layout[5:]
	case "i2_s_x86":
		c.Layout = "i2s"
	case "i2_s_arm":
		c.Layout = "i2s-arm"
	case "i2_s_x86_rows4":
		c.Layout = "i2s-rows4"
	case "bitnet_gpu_int2":
		c.Layout = "w2a8"
	case "hf_bitnet_u8":
		c.Layout = "hf-u8"
	}
	return true
}

// generate is the weight generator of goldens_sha256.json.
func generate(kind string, seed, i uint64) float32 {
	z := (i+1)*0x9E3779B97F4A7C15 + seed
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	r := (z ^ z>>31) >> 33
	switch kind {
	case "trit":
		return float32(r%3) - 1
	case "sign":
		return 1 - 2*float32(r%2)
	case "int8":
		return float32(r%255) - 127
	case "u2":
		return float32(r % 4)
	case "u4":
		return float32(r % 16)
	}
	panic("unknown generator " + kind)
}
