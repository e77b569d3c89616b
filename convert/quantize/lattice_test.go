package quantize

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// rounded is x rounded once to a type, ties to even, written from its definition: a number of bits, and a smallest
// exponent.
func (d DType) rounded(x float64) float32 {
	if x == 0 || d == F32 {
		return float32(x)
	}
	precision, smallest := 7, -126
	if d == F16 {
		precision, smallest = 10, -14
	}
	unit := math.Exp2(float64(max(math.Ilogb(x), smallest) - precision))
	return float32(math.RoundToEven(x/unit) * unit)
}

// dequantized is a row of codes times α, rounded to the type; zeros have both signs, as rounding leaves them.
func dequantized(d DType, codes []int8, alpha float64) []float32 {
	w := make([]float32, len(codes))
	for i, c := range codes {
		w[i] = d.rounded(float64(c) * alpha)
		if c == 0 && i%2 == 0 {
			w[i] = float32(math.Copysign(0, -1))
		}
	}
	return w
}

var exactAlphabets = map[string][]int8{
	"sign-values":    pack.Int1.Values,
	"ternary-values": pack.Ternary.Values,
	"int2-values":    pack.Int2Odd.Values,
	"int3-values":    pack.Int3.Values,
	"int4-values":    pack.Int4.Values,
}

// TestLattice: rows of every exact rule, in every type, with scales of any size and of few bits: the codes are
// recovered, and code·scale rounds to every weight.
func TestLattice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, values := range exactAlphabets {
		for _, d := range dtypes {
			for range 3000 {
				alpha := float64(float32(math.Exp2(-9 + 12*r.Float64())))
				if r.IntN(2) == 0 {
					alpha = float64(d.rounded(alpha))
				}
				codes := make([]int8, 2*len(values)+r.IntN(70))
				for i := range codes {
					codes[i] = values[r.IntN(len(values))]
				}
				codes[0], codes[1] = values[0], values[len(values)-1]
				codes[2] = values[slices.IndexFunc(values, func(c int8) bool { return c == 1 })]
				w := dequantized(d, codes, alpha)
				q, got := run(t, Job{Rule: name, DType: d, Shape: pack.Shape{M: 1, K: len(w)}}, d.encode(w))
				scale := q.Scales()[0]
				if !slices.Equal(got, codes) {
					t.Fatalf("%s, %s, α %v: codes %v, want %v", name, d, alpha, got, codes)
				}
				for i, c := range got {
					if d.rounded(float64(c)*float64(scale)) != w[i] {
						t.Fatalf("%s, %s, α %v: %d × %v is not %v", name, d, alpha, c, scale, w[i])
					}
				}
				if d != F32 && float64(d.rounded(alpha)) == alpha && float64(scale) != alpha {
					t.Fatalf("%s, %s: a step of %v was stored, %v is found", name, d, alpha, scale)
				}
			}
		}
	}
}

// TestLatticeRefuses every row with a weight that is one unit off, unless another scale reproduces the whole row;
// errors of rows that are not a lattice name the reason.
func TestLatticeRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 4000 {
		d, values := dtypes[r.IntN(3)], pack.Int4.Values
		alpha, codes := math.Exp2(-6+3*r.Float64()), slices.Repeat(values, 4)
		w := dequantized(d, codes, alpha)
		at := r.IntN(len(w))
		b := d.encode(w)
		b[at*d.Size()] ^= 1
		q, got, err := try(Job{Rule: "int4-values", DType: d, Shape: pack.Shape{M: 1, K: len(w)}}, b)
		if errors.Is(err, pack.ErrUnsupported) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		d.Widen(w, b)
		for i, c := range got {
			if d.rounded(float64(c)*float64(q.Scales()[0])) != w[i] {
				t.Fatalf("%s: %d × %v is not %v", d, c, q.Scales()[0], w[i])
			}
		}
	}
	if refused < 3500 {
		t.Errorf("%d of 4000 damaged rows were refused", refused)
	}
	for name, c := range map[string]struct {
		rule  string
		w     []float32
		words string
	}{
		"a tiny scale":      {"sign-values", []float32{0x1p-127, -0x1p-127}, "too small"},
		"two magnitudes":    {"sign-values", []float32{1, -1, 2, 1}, "more than 1 magnitudes: 1 and, in column 2, 2"},
		"a zero in four":    {"sign-values", []float32{1, -1, 0, 1}, "1 of 4 weights are zero"},
		"zero of four":      {"int2-values", []float32{1, 0, 3, -1}, "zero is a weight beside 1"},
		"a third level":     {"int2-values", []float32{1, 2, 3, 1}, "no scale"},
		"ratio of two":      {"int2-values", []float32{1, 2, -2, -1}, "no scale"},
		"almost three":      {"int2-values", []float32{1, 3.03, -1, 3.03}, "no scale"},
		"five values":       {"int2-values", []float32{1, 3, -1, -3, 2}, "column 4"},
		"four steps up":     {"int3-values", []float32{1, 4, -1, 3}, "no scale"},
		"five steps down":   {"int3-values", []float32{1, -5, -1, 3}, "no scale"},
		"nine values":       {"int3-values", []float32{-4, -3, -2, -1, 0, 1, 2, 3, 4, 5}, "column 9"},
		"nine steps":        {"int4-values", []float32{1, 9, -1, 3}, "no scale"},
		"plus eight":        {"int4-values", []float32{1, 8, -1, 3}, "no scale"},
		"half steps":        {"int4-values", []float32{1, 4.5, -1, 3}, "no scale"},
		"too fine for F32s": {"int4-values", []float32{1, 3.0000002, -1, 3}, "no scale"},
	} {
		_, _, err := try(Job{Rule: c.rule, DType: F32, Shape: pack.Shape{M: 1, K: len(c.w)}}, f32(c.w...))
		if !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "row 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLatticeChoices: where several codes or scales would do, the choice is the stated one.
func TestLatticeChoices(t *testing.T) {
	huge := float32(math.MaxFloat32)
	for _, c := range []struct {
		rule  string
		d     DType
		w     []float32
		codes []int8
		scale float32
	}{
		{"int3-values", F32, []float32{4, -8, 4, 0}, []int8{1, -2, 1, 0}, 4},
		{"int3-values", F32, []float32{-4, 3, -4, 0}, []int8{-4, 3, -4, 0}, 1},     // all of the range
		{"int4-values", F32, []float32{4, -8, 4, 0}, []int8{1, -2, 1, 0}, 4},       // not 2 and −4
		{"int4-values", F32, []float32{-8, -8, -8, -8}, []int8{-1, -1, -1, -1}, 8}, // one magnitude
		{"int4-values", F32, []float32{4, 6, 0, -6}, []int8{2, 3, 0, -3}, 2},       // no code is 1
		{"int4-values", BF16, []float32{0, 0, 0, 0}, []int8{0, 0, 0, 0}, 0},
		{"int4-values", F32, []float32{huge, -huge, 0, 0}, []int8{1, -1, 0, 0}, huge},
		{"int2-values", F32, []float32{-3, -3, 3, 3}, []int8{-1, -1, 1, 1}, 3},
		{"int2-values", F16, []float32{0, 0, 0, 0}, []int8{1, 1, 1, 1}, 0},
		{"int2-values", F32, []float32{huge, -huge, huge, huge}, []int8{1, -1, 1, 1}, huge},
		{"sign-values", F32, []float32{-3, -3, 3, 3}, []int8{-1, -1, 1, 1}, 3},
		{"sign-values", F32, []float32{0, 0, 0, 0}, []int8{1, 1, 1, 1}, 0},
		// three times that is a tie
		{"int4-values", BF16, []float32{3.03125, 1.0078125, -1.0078125, 0}, []int8{3, 1, -1, 0}, 1.0078125},
	} {
		q, codes := run(t, Job{Rule: c.rule, DType: c.d, Shape: pack.Shape{M: 1, K: 4}}, c.d.encode(c.w))
		if !slices.Equal(codes, c.codes) || q.Scales()[0] != c.scale {
			t.Errorf("%s of %v: %v × %v, want %v × %v", c.rule, c.w, codes, q.Scales()[0], c.codes, c.scale)
		}
	}
}

// TestReplacedZeros: a zero among many signs becomes +1 and is reported; rows of zeros are exact.
func TestReplacedZeros(t *testing.T) {
	const k = 512
	w := make([]float32, 3*k)
	for i := range w[:2*k] {
		w[i] = float32(1-2*(i%2)) * []float32{0.5, 0.75}[i/k]
	}
	w[7], w[k+300] = 0, float32(math.Copysign(0, -1))
	for _, d := range dtypes {
		q, codes := run(t, Job{Rule: "sign-values", DType: d, Shape: pack.Shape{M: 3, K: k}}, d.encode(w))
		if q.Replaced() != 2 || codes[7] != 1 || codes[k+300] != 1 || codes[6] != 1 || codes[k+1] != -1 ||
			!slices.Equal(q.Scales(), []float32{0.5, 0.75, 0}) {
			t.Errorf("%s: %d zeros, scales %v", d, q.Replaced(), q.Scales())
		}
	}
	w[8], w[9] = 0, 0 // three of 512
	if _, _, err := try(Job{Rule: "sign-values", DType: F32, Shape: pack.Shape{M: 3, K: k}}, f32(w...)); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("three zeros of 512: %v", err)
	}
}

// TestSimplest compares with a search through all patterns of short intervals.
func TestSimplest(t *testing.T) {
	trailing := func(p uint32) (n int) {
		for ; p&1 == 0 && n < 32; p >>= 1 {
			n++
		}
		return n
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		a := r.Uint32N(0x7f000000) + 1
		b := a + r.Uint32N(300)
		best := a
		for p := a; p <= b; p++ {
			if trailing(p) > trailing(best) {
				best = p
			}
		}
		if got := simplest(math.Float32frombits(a), math.Float32frombits(b)); math.Float32bits(got) != best {
			t.Fatalf("%#x … %#x: %#x, want %#x", a, b, math.Float32bits(got), best)
		}
	}
}

// TestLatticeOfAnyPatterns: whatever a row holds, subnormals and the largest numbers included, it is refused or
// reproduced.
func TestLatticeOfAnyPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	accepted := map[string]int{}
	for range 60000 {
		d := dtypes[r.IntN(3)]
		base, spread := []uint32{0, 0x380, 0x3f0, 0x7bf0, 0x7f70, 0x3f80}[r.IntN(6)], 1+r.Uint32N(40)
		b := make([]byte, 0, 64)
		for range 1 + r.IntN(8) {
			p := base + r.Uint32N(spread)
			if r.IntN(2) == 0 {
				p |= 0x8000
			}
			if d == F32 {
				b = append(b, byte(r.Uint32N(2)), 0)
			}
			b = append(b, byte(p), byte(p>>8))
		}
		k := len(b) / d.Size()
		w := make([]float32, k)
		d.Widen(w, b)
		for name := range exactAlphabets {
			q, codes, err := try(Job{Rule: name, DType: d, Shape: pack.Shape{M: 1, K: k}}, b)
			if err != nil {
				continue
			}
			accepted[name]++
			for i, c := range codes {
				if got := d.rounded(float64(c) * float64(q.Scales()[0])); got != w[i] {
					t.Fatalf("%s, %s of %v: code %d × %v is %v", name, d, w, c, q.Scales()[0], got)
				}
			}
		}
	}
	for name := range exactAlphabets {
		if accepted[name] < 500 {
			t.Errorf("%s: only %d rows were accepted", name, accepted[name])
		}
	}
}
