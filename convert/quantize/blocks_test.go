package quantize

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// ggmlBlock is a block of floats quantized by ggml.
type ggmlBlock struct {
	Layout, Note string
	X            [][]float32
	Dequant      []float32
	Hex          string `json:"expected_hex"`
}

func ggmlBlocks(t *testing.T) []ggmlBlock {
	t.Helper()
	text, err := os.ReadFile(shared.Testdata(t, "vectors/ggml_blocks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []ggmlBlock }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestBlocks compares with ggml's quantization of the same floats: Q2_0 for every vector in testdata, MXFP4 where the
// two definitions agree, that is, except at ties.
func TestBlocks(t *testing.T) {
	seen := map[string]int{}
	for _, c := range ggmlBlocks(t) {
		if c.Layout != "q2_0" && c.Layout != "mxfp4" || c.Note != "" {
			continue
		}
		seen[c.Layout]++
		x := slices.Concat(c.X...)
		q, codes := run(t, Job{Rule: c.Layout, DType: F32, Shape: pack.Shape{M: 1, K: len(x)}}, f32(x...))
		_, group := q.Kind()
		for i, want := range c.Dequant {
			if got := float32(codes[i]) * q.Scales()[i/group]; got != want {
				t.Errorf("%s: weight %v comes back as %v, want %v", c.Layout, x[i], got, want)
			}
		}
	}
	if seen["q2_0"] == 0 || seen["mxfp4"] == 0 {
		t.Errorf("vectors: %v", seen)
	}
}

// TestGroupsOfGGML: groups of 32 columns of int4 and int8 have the scales of Q4_0 and Q8_0. Codes differ by at most
// one, because ggml computes them with the unrounded scale.
func TestGroupsOfGGML(t *testing.T) {
	rules, seen := map[string]string{"q4_0": "int4", "q8_0": "int8"}, map[string]int{}
	for _, c := range ggmlBlocks(t) {
		rule := rules[c.Layout]
		if rule == "" {
			continue
		}
		seen[rule]++
		x := slices.Concat(c.X...)
		b, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatal(err)
		}
		q, codes := run(t, Job{Rule: rule, Kind: PerGroup, Group: 32, DType: F32,
			Shape: pack.Shape{M: 1, K: len(x)}}, f32(x...))
		for i, want := range c.Dequant {
			scale := q.Scales()[i/32]
			block := b[i/32*len(b)/len(q.Scales()):]
			if d := float16.Widen(binary.LittleEndian.Uint16(block)); d != scale && !twoExtremes(x[i/32*32:][:32]) {
				t.Errorf("%s: scale %v, ggml has %v", rule, scale, d)
			} else if got := float32(codes[i]) * scale; d == scale &&
				math.Abs(float64(got-want)) > math.Abs(float64(scale)) {
				t.Errorf("%s: weight %v comes back as %v, of ggml as %v", rule, x[i], got, want)
			}
		}
	}
	if seen["int4"] == 0 || seen["int8"] == 0 {
		t.Errorf("vectors: %v", seen)
	}
}

// twoExtremes: the largest and the smallest weight have one magnitude, and the order decides in ggml which one counts.
func twoExtremes(w []float32) bool { return slices.Max(w) == -slices.Min(w) }

// TestQ2Ties: halves of the largest weight round away from zero, as in ggml.
func TestQ2Ties(t *testing.T) {
	w := make([]float32, 64)
	w[0], w[1], w[2], w[3] = 2, 1, -1, 0.99
	_, codes := run(t, Job{Rule: "q2_0", DType: F32, Shape: pack.Shape{M: 1, K: 64}}, f32(w...))
	if want := []int8{1, 1, -1, 0}; !slices.Equal(codes[:4], want) {
		t.Errorf("codes %v, want %v", codes[:4], want)
	}
}

// TestMXFP4IsNearest tries every finite bf16 weight in a block whose largest weight is 6: the element is the nearest;
// ties go to an even last bit.
func TestMXFP4IsNearest(t *testing.T) {
	grid := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6} // by code, so that even indices have an even last bit
	_, a := fitMX(stat{pos: 6}, nil)
	if a != 1 {
		t.Fatalf("2^E is %v, want 1", a)
	}
	for key := -BF16.maxKey() - 1; key <= BF16.maxKey(); key++ {
		w := BF16.value(key)
		x, best := min(math.Abs(float64(w)), 6), 0
		for i, g := range grid {
			d, b := math.Abs(x-g), math.Abs(x-grid[best])
			if d < b || d == b && i%2 == 0 {
				best = i
			}
		}
		want := int8(2 * grid[best])
		if w < 0 {
			want = -want
		}
		if got := codeMX(w, a); got != want {
			t.Fatalf("%v: code %d, want %d", w, got, want)
		}
	}
}

// TestMXFP4Exponent: the shared exponent at the ends of its range.
func TestMXFP4Exponent(t *testing.T) {
	for _, c := range []struct{ most, scale float32 }{
		{0, 0x1p-128}, {0x1p-149, 0x1p-128}, {0x1p-126, 0x1p-128}, {0x1p-125, 0x1p-128}, {0x1p-124, 0x1p-127},
		{1, 0x1p-3}, {1.99, 0x1p-3}, {2, 0x1p-2}, {7.9, 0x1p-1}, {8, 1}, {math.MaxFloat32, 0x1p124},
	} {
		scale, a := fitMX(stat{neg: c.most}, nil)
		if scale != c.scale || a != 1/(2*scale) {
			t.Errorf("largest weight %v: scale %v, want %v", c.most, scale, c.scale)
		}
		if code := codeMX(-c.most, a); c.most >= 0x1p-125 && (code > -8 || code < -12) {
			t.Errorf("largest weight %v: code %d", c.most, code)
		}
	}
}
