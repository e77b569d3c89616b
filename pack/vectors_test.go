package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
)

// vector is one case of testdata/vectors: bytes that the original systems produced.
type vector struct {
	Layout   string
	Shape    [2]int
	M, K     int
	Weights  [][]int
	Gen      string
	Seed     uint64
	Expected string `json:"expected_hex"`
	SHA256   string `json:"sha256"`
	Bytes    int
	BigM     int `json:"BM"`
	BigK     int `json:"BK"`
	Bm       int `json:"bm"`
	Bits     int
	KFactor  int
	X        [][]float32
	Dequant  []float32
	Scale    json.RawMessage
}

// UnmarshalJSON keeps BM and bm apart, which encoding/json takes for the same key.
func (v *vector) UnmarshalJSON(b []byte) error {
	type plain vector
	if err := json.Unmarshal(b, (*plain)(v)); err != nil {
		return err
	}
	var exact map[string]json.RawMessage
	if err := json.Unmarshal(b, &exact); err != nil {
		return err
	}
	for name, to := range map[string]*int{"BM": &v.BigM, "BK": &v.BigK, "bm": &v.Bm, "m": &v.M, "k": &v.K} {
		*to = 0
		if raw, ok := exact[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return err
			}
		}
	}
	if v.Shape != [2]int{} {
		v.M, v.K = v.Shape[0], v.Shape[1]
	}
	return nil
}

func loadVectors(t testing.TB, file string) []vector {
	t.Helper()
	data, err := os.ReadFile("../testdata/vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []vector }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(doc.Cases) == 0 {
		t.Fatalf("%s holds no cases", file)
	}
	return doc.Cases
}

// spec names the layout of a vector as this package does.
func (v *vector) spec() (Spec, bool) {
	panel := func(name string) string {
		if v.Bm == 64 {
			return name + "-64"
		}
		return name
	}
	switch v.Layout {
	case "vnni4i_int2":
		return Spec{Name: panel("vnni4i")}, true
	case "vnni4_int1":
		return Spec{Name: panel("vnni4"), Alphabet: "int1"}, true
	case "vnni4_int8":
		if v.Bm == 8 { // a panel height that nobody uses
			return Spec{}, false
		}
		return Spec{Name: panel("vnni4"), Alphabet: "int8"}, true
	case "tl1":
		return Spec{Name: "tl1", Params: map[string]int{"BM": v.BigM, "BK": v.BigK, "bm": v.Bm}}, true
	case "tl2":
		return Spec{Name: "tl2", Params: map[string]int{"BM": v.BigM, "BK": v.BigK}}, true
	case "tmac":
		a := map[int]string{1: "int1", 2: "int2", 4: "int4"}[v.Bits]
		return Spec{Name: fmt.Sprintf("tmac%d", v.Bits), Alphabet: a, Params: map[string]int{"bm": v.Bm, "kf": v.KFactor}}, true
	}
	names := map[string]string{
		"i1_v": "i1", "i1_v_2": "i1-t2", "i2_v": "i2", "i2_v_4": "i2-t4", "i2_v_8": "i2-t8",
		"i2_s_x86": "i2s", "i2_s_arm": "i2s-arm", "i2_s_x86_rows4": "i2s-rows4",
		"bitnet_gpu_int2": "w2a8", "hf_bitnet_u8": "hf-u8",
	}
	name, ok := names[v.Layout]
	return Spec{Name: name}, ok
}

func (v *vector) matrix(a Alphabet) *Matrix {
	m := NewMatrix(Shape{v.M, v.K}, a)
	for i := range m.Codes {
		if v.Gen != "" {
			m.Codes[i] = generate(v.Gen, v.Seed, uint64(i))
		} else {
			m.Codes[i] = int8(v.Weights[i/v.K][i%v.K])
		}
		if v.Layout == "tmac" { // its vectors count codes from zero
			m.Codes[i] = a.Values[m.Codes[i]]
		}
	}
	return m
}

// generate is the weight generator of goldens_sha256.json.
func generate(kind string, seed, i uint64) int8 {
	z := (i+1)*0x9E3779B97F4A7C15 + seed
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	r := (z ^ z>>31) >> 33
	switch kind {
	case "trit":
		return int8(r%3) - 1
	case "sign":
		return 1 - 2*int8(r%2)
	case "int8":
		return int8(int(r%255) - 127)
	case "u2":
		return int8(r % 4)
	case "u4":
		return int8(r % 16)
	}
	panic("unknown generator " + kind)
}

func (v *vector) check(t *testing.T, got []byte) {
	t.Helper()
	if v.Expected != "" {
		if h := hex.EncodeToString(got); h != v.Expected {
			t.Errorf("packed bytes differ:\n got %s\nwant %s", h, v.Expected)
		}
		return
	}
	if len(got) != v.Bytes {
		t.Errorf("%d bytes, want %d", len(got), v.Bytes)
	}
	if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != v.SHA256 {
		t.Errorf("SHA-256 %x, want %s", sum, v.SHA256)
	}
}

// TestVectors packs the weights of all vectors of layouts of codes, and unpacks the bytes again.
func TestVectors(t *testing.T) {
	files := []string{"vnni4i_int2.json", "vnni4_int1.json", "vnni4_int8.json", "veclut.json", "bitnet_i2_s.json", "bitnet_tl1.json", "bitnet_tl2.json",
		"bitnet_gpu_int2.json", "hf_bitnet_u8.json", "tmac.json", "goldens_sha256.json"}
	for _, file := range files {
		for i, v := range loadVectors(t, file) {
			spec, ok := v.spec()
			if !ok {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s-%d", file, spec.Name, i), func(t *testing.T) {
				l, err := Open(spec)
				if err != nil {
					t.Skip(err)
				}
				a, err := FindAlphabet(l.Spec().Alphabet)
				if err != nil {
					t.Fatal(err)
				}
				m := v.matrix(a)
				packed := packed(t, l, m)
				v.check(t, packed)
				back := NewMatrix(m.Shape, a)
				if err := l.Unpack(back, packed); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(back.Codes, m.Codes) {
					t.Error("unpacked codes differ")
				}
			})
		}
	}
}

func packed(t testing.TB, l Layout, m *Matrix) []byte {
	t.Helper()
	n, err := l.PackedSize(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, n)
	if err := l.Pack(dst, m); err != nil {
		t.Fatal(err)
	}
	return dst
}
