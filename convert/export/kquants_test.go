package export

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/pack"
)

// wideFile is a GGUF of a Llama with float matrices whose rows are whole blocks of K-quants.
func wideFile(t *testing.T) string {
	t.Helper()
	path, _ := exported(t, packedOf(t, llamaOf(t, 256, 512), packed.Recipe{Quant: "none"}))
	return path
}

// halfPlaces are the columns of a block of a type, and the places of its float16 numbers.
var halfPlaces = map[gguf.Type]struct {
	columns int64
	at      []int
}{gguf.Q5_0: {32, []int{0}}, gguf.Q8_0: {32, []int{0}}, gguf.Q5_1: {32, []int{0, 2}},
	gguf.Q2_K: {256, []int{80, 82}}, gguf.Q3_K: {256, []int{108}}, gguf.Q4_K: {256, []int{0, 2}},
	gguf.Q5_K: {256, []int{0, 2}}, gguf.Q6_K: {256, []int{208}}, gguf.IQ4_NL: {32, []int{0}},
	gguf.IQ4_XS: {256, []int{0}}, gguf.IQ2_XXS: {256, []int{0}}, gguf.IQ2_XS: {256, []int{0}},
	gguf.IQ2_S: {256, []int{0}}, gguf.IQ3_XXS: {256, []int{0}}, gguf.IQ3_S: {256, []int{0}},
	gguf.IQ1_S: {256, []int{0}}, gguf.IQ1_M: {256, []int{}}, gguf.NVFP4: {64, []int{}}}

// randomBlocks are blocks of random bytes but for the float16 numbers, which are small and of both signs. With nonzero,
// no scale is 0: codes of a scale of 0 are not kept, but those of iq4nl.
func randomBlocks(r *rand.Rand, kind gguf.Type, s pack.Shape, nonzero bool) (out []byte) {
	p := halfPlaces[kind]
	b := make([]byte, kind.RowSize(p.columns))
	for n := 0; n < s.M*s.K/int(p.columns); {
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		switch kind { // a float16 of both signs below 1, and scales without NaN
		case gguf.IQ1_M:
			b[55] = b[55]&15 | byte(0x20|r.UintN(2)*0x80)
		case gguf.NVFP4:
			for g := range 4 {
				b[g] %= 0x7f
			}
		}
		for _, at := range p.at {
			x := (r.Float32() + 0.5) / 4096 * float32(1-2*int(r.UintN(2)))
			binary.LittleEndian.PutUint16(b[at:], float16.Narrow(x))
		}
		zero := false
		if p.columns == packed.FactorColumns {
			_ = kind.EachFactors(b, func(_ float32, scales []int8, _ float32, _ []int8) {
				zero = slices.Contains(scales, 0)
			})
		}
		if !zero || !nonzero {
			out, n = append(out, b...), n+1
		}
	}
	return out
}

// TestKQuants: codes, scales and minima of K-quants, of Q5_0, Q5_1, IQ4_NL and IQ4_XS are those of the GGUF, whose
// values the weights equal; the model passes every level; and an export reproduces the bytes.
func TestKQuants(t *testing.T) {
	float, r := wideFile(t), seed.Rand(t)
	eighths := func(group int) packed.Scale {
		return packed.Scale{Kind: "group", Group: group, DType: "F16I8/8", Signed: true}
	}
	for kind, want := range map[gguf.Type]struct {
		alphabet string
		scale    packed.Scale
		min      bool
		bits     float64
	}{
		gguf.Q5_0: {"int5", packed.Scale{Kind: "group", Group: 32, DType: "F16", Signed: true}, false, 5.5},
		gguf.Q5_1: {"int5", packed.Scale{Kind: "group", Group: 32, DType: "F16", Signed: true}, true, 6},
		gguf.Q2_K: {"int2", packed.Scale{Kind: "group", Group: 16, DType: "F16I8", Signed: true}, true, 3.125},
		gguf.Q3_K: {"int3", packed.Scale{Kind: "group", Group: 16, DType: "F16I8", Signed: true}, false, 3.5625},
		gguf.Q4_K: {"int4", packed.Scale{Kind: "group", Group: 32, DType: "F16I8", Signed: true}, true, 4.625},
		gguf.Q5_K: {"int5", packed.Scale{Kind: "group", Group: 32, DType: "F16I8", Signed: true}, true, 5.625},
		gguf.Q6_K: {"int6", packed.Scale{Kind: "group", Group: 16, DType: "F16I8", Signed: true}, false, 6.5625},

		gguf.IQ4_NL: {"iq4nl", packed.Scale{Kind: "group", Group: 32, DType: "F16", Signed: true}, false, 4.5},
		gguf.IQ4_XS: {"iq4nl", packed.Scale{Kind: "group", Group: 32, DType: "F16I8", Signed: true}, false, 4.3125},
		gguf.NVFP4:  {"e2m1", packed.Scale{Kind: "group", Group: 16, DType: "F16"}, false, 5},

		gguf.IQ2_XXS: {"iq2", eighths(32), false, 4.3125},
		gguf.IQ2_XS:  {"iq2", eighths(16), false, 4.5625},
		gguf.IQ2_S:   {"iq2", eighths(16), false, 4.5625},
		gguf.IQ3_XXS: {"iq3xxs", eighths(32), false, 4.3125},
		gguf.IQ3_S:   {"int4odd", packed.Scale{Kind: "group", Group: 32, DType: "F16I8", Signed: true}, false, 4.3125},
		gguf.IQ1_S:   {"int4odd", eighths(32), false, 4.3125},
		gguf.IQ1_M:   {"int4odd", eighths(16), false, 4.5625},
	} {
		for _, nonzero := range []bool{true, false} {
			path, data := inBlocks(t, float, kind, func(_ []float32, s pack.Shape) []byte {
				return randomBlocks(r, kind, s, nonzero)
			})
			source := packedOf(t, path, packed.Recipe{})
			if _, err := VerifyGGUF(t.Context(), path, source); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			verified(t, source, path)
			f, err := packed.Open(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range f.Manifest().Packed {
				if e.Layout.Alphabet != want.alphabet || e.Scale != want.scale || e.Min != want.min ||
					e.MatrixShape().M%32 == 0 && e.Bits() != want.bits {
					t.Errorf("%s: %+v, %v bits", kind, e, e.Bits())
				}
			}
			if n := len(f.Manifest().Packed); n != 9 {
				t.Errorf("%s: %d matrices are packed", kind, n)
			}
			f.Close()
			noZero := slices.Contains([]string{"iq4nl", "iq2", "iq3xxs", "int4odd"}, want.alphabet)
			if noZero {
				sum, err := convert.Unpack(t.Context(), source, filepath.Join(t.TempDir(), "floats"),
					convert.UnpackOptions{Form: convert.FormBF16})
				if err != nil || sum.Rounded != 0 {
					t.Errorf("%s: unpack rounds: %+v, %v", kind, sum, err)
				}
			}
			again, _ := exported(t, source)
			if nonzero && kind != gguf.NVFP4 || noZero { // −0 of NVFP4 is 0
				sameBytes(t, again, data)
			}
			same(t, source, packedOf(t, again, packed.Recipe{}))
		}
	}
}

// TestRepackedBlocks: where a layout does not hold the codes of blocks, a file that is repacked has the layouts of one
// that is converted.
func TestRepackedBlocks(t *testing.T) {
	float, r := wideFile(t), seed.Rand(t)
	for _, kind := range []gguf.Type{gguf.Q8_0, gguf.Q6_K, gguf.IQ4_NL} {
		path, _ := inBlocks(t, float, kind, func(_ []float32, s pack.Shape) []byte {
			return randomBlocks(r, kind, s, true)
		})
		for _, layout := range []string{"vnni4i-64", "vnni4"} {
			again := filepath.Join(t.TempDir(), "again")
			_, err := convert.Repack(t.Context(), packedOf(t, path, packed.Recipe{}), again,
				convert.RepackOptions{Layout: layout})
			if err != nil {
				t.Fatalf("%s, %s: %v", kind, layout, err)
			}
			same(t, again, packedOf(t, path, packed.Recipe{Layout: layout}))
		}
	}
}

// TestKQuantBlocks: the codes and integers of random blocks, of all that a type holds, are those that are read again.
func TestKQuantBlocks(t *testing.T) {
	r := seed.Rand(t)
	for kind, k := range kQuants {
		within := func(low, high int8) int8 { return int8(int(low) + r.IntN(int(high)-int(low)+1)) }
		legal := k.alphabet.Values
		for range 100 {
			m := pack.NewMatrix(pack.Shape{M: 1, K: packed.FactorColumns}, k.alphabet)
			for i := range m.Codes {
				m.Codes[i] = legal[r.IntN(len(legal))]
			}
			how := packed.Scale{Kind: packed.ScaleGroup, Group: k.group, DType: packed.ScaleF16I8, Signed: true}
			scales, minima := make([]int8, packed.FactorColumns/k.group), make([]int8, packed.FactorColumns/k.group)
			for i := range scales {
				scales[i], minima[i] = within(k.least, k.most), within(-k.most, 0)
			}
			first, err := how.AppendFactors(nil, 0.25, scales)
			added, err2 := how.AppendFactors(nil, 0.5, minima)
			if !k.minima {
				added, minima = nil, nil
			}
			b := make([]byte, kind.RowSize(packed.FactorColumns))
			err3 := k.encode(b, m, units{factors: factors{how: how, first: first, added: added}})
			codes, floats := make([]int8, packed.FactorColumns), make([]float32, 2*len(scales))
			err4 := kind.DecodeRow(codes, floats[:len(scales)], floats[len(scales):], b)
			if err := errors.Join(err, err2, err3, err4); err != nil || !slices.Equal(codes, m.Codes) {
				t.Fatalf("%s: codes %v, want %v; %v", kind, codes, m.Codes, err)
			}
			err = kind.EachFactors(b, func(half float32, s []int8, _ float32, least []int8) {
				if half != 0.25 || !slices.Equal(s, scales) || !slices.Equal(least, minima) {
					t.Fatalf("%s: scales %v, minima %v; want %v, %v", kind, s, least, scales, minima)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestKQuantRanges: a K-quant holds scales and minima of its own ranges, and codes of its own alphabet, only.
func TestKQuantRanges(t *testing.T) {
	for kind, k := range kQuants {
		b := blockTypes[kind]
		codes := make([]int8, packed.FactorColumns)
		for i := range codes {
			codes[i] = k.alphabet.Values[i%len(k.alphabet.Values)]
		}
		u := units{group: k.group, factors: factors{how: packed.Scale{Kind: packed.ScaleGroup, Group: k.group,
			DType: packed.ScaleF16I8, Signed: true}, least: k.least, most: k.most}}
		u.width = 2 + packed.FactorColumns/k.group
		u.first = make([]byte, u.width)
		if k.minima {
			u.minima, u.added = make([]float32, packed.FactorColumns/k.group), make([]byte, u.width)
			u.lowest = -k.most
		}
		if !b.holds(k.alphabet, u, false) {
			t.Errorf("%s: its own ranges", kind)
		}
		for what, change := range map[string]func(u *units){
			"a scale below":    func(u *units) { u.least-- },
			"a scale above":    func(u *units) { u.most++ },
			"a minimum below":  func(u *units) { u.lowest = -k.most - 1 },
			"a minimum above":  func(u *units) { u.highest = 1 },
			"other minima":     func(u *units) { u.minima = map[bool][]float32{false: {1}}[k.minima] },
			"other groups":     func(u *units) { u.group = 48 - k.group },
			"scales of floats": func(u *units) { u.width = 0 },
		} {
			other := u
			if change(&other); other.least < other.most && b.holds(k.alphabet, other, false) {
				t.Errorf("%s: %s", kind, what)
			}
		}
		if b.holds(pack.E2M1, u, false) {
			t.Errorf("%s: codes of another alphabet", kind)
		}
		m := &pack.Matrix{Shape: pack.Shape{M: 1, K: len(codes)}, Alphabet: k.alphabet, Codes: codes}
		if err := b.encode(make([]byte, kind.RowSize(int64(len(codes)))), m, u); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestNonlinear: IQ4_NL holds the codes of its table with float16 scales, without zero points and minima.
func TestNonlinear(t *testing.T) {
	r, b := seed.Rand(t), blockTypes[gguf.IQ4_NL]
	m := pack.NewMatrix(pack.Shape{M: 2, K: 64}, pack.IQ4NL)
	for i := range m.Codes {
		m.Codes[i] = pack.IQ4NL.Values[r.IntN(16)]
	}
	u := units{scales: []float32{0.5, -3, 0x1p-24, 65504}, perRow: 2, group: 32}
	if !b.holds(pack.IQ4NL, u, false) || b.holds(pack.Int4, u, false) || b.holds(pack.Int8, u, false) {
		t.Error("it holds other codes")
	}
	for what, change := range map[string]func(u *units){
		"a scale":     func(u *units) { u.scales = []float32{0.5, -3, 0x1p-25, 65504} },
		"zero points": func(u *units) { u.zeros = make([]int8, 4) },
		"minima":      func(u *units) { u.minima = make([]float32, 4) },
	} {
		other := u
		change(&other)
		if b.holds(pack.IQ4NL, other, false) || b.holds(pack.IQ4NL, other, true) != (what == "a scale") {
			t.Errorf("it holds %s", what)
		}
	}
	size := int(gguf.IQ4_NL.RowSize(64))
	dst := make([]byte, 2*size)
	if err := b.encode(dst, m, u); err != nil {
		t.Fatal(err)
	}
	for row := range 2 {
		codes, scales := make([]int8, 64), make([]float32, 2)
		err := gguf.IQ4_NL.DecodeRow(codes, scales, nil, dst[row*size:][:size])
		if err != nil || !slices.Equal(codes, m.Codes[64*row:][:64]) || !slices.Equal(scales, u.scales[2*row:][:2]) {
			t.Errorf("row %d: %v, %v, %v", row, codes, scales, err)
		}
	}
}
