package float16

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// TestStored: stored floats are read little-endian.
func TestStored(t *testing.T) {
	src := []byte{0x00, 0x3c, 0x00, 0xbc, 0x80, 0x3f, 0x20, 0xc0}
	for name, c := range map[string]struct {
		read func([]float32, []byte)
		want []float32
	}{
		"Halves":  {Halves, []float32{1, -1, 1.875, -2.0625}},
		"Brains":  {Brains, []float32{0x1p-7, -0x1p-7, 1, -2.5}},
		"Singles": {Singles, []float32{math.Float32frombits(0xbc003c00), math.Float32frombits(0xc0203f80)}},
	} {
		dst := make([]float32, len(c.want))
		if c.read(dst, src); !slices.Equal(dst, c.want) {
			t.Errorf("%s: %v, want %v", name, dst, c.want)
		}
	}
}

// value returns the value of a float with that many bits of exponent and fraction, by the definition of the format.
func value(bits, exponent, fraction int) float64 {
	e, f := bits>>fraction&(1<<exponent-1), float64(bits&(1<<fraction-1))
	bias := 1<<(exponent-1) - 1
	v := math.Ldexp(f, 1-bias-fraction)
	switch {
	case e == 1<<exponent-1 && f != 0:
		return math.NaN()
	case e == 1<<exponent-1:
		v = math.Inf(1)
	case e > 0:
		v = math.Ldexp(f+float64(int(1)<<fraction), e-bias-fraction)
	}
	if bits>>(exponent+fraction) != 0 {
		v = math.Copysign(v, -1)
	}
	return v
}

// TestWiden tries all 65,536 patterns of both types.
func TestWiden(t *testing.T) {
	for p := range 1 << 16 {
		for _, c := range []struct {
			got  float32
			want float64
		}{{Widen(uint16(p)), value(p, 5, 10)}, {WidenBrain(uint16(p)), value(p, 8, 7)}} {
			got := float64(c.got)
			if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) || math.Signbit(got) != (p>>15 == 1) {
				t.Fatalf("%#04x: %v, want %v", p, got, c.want)
			}
		}
	}
}

// TestNarrow covers all values, and the rounding at every boundary between two of them.
func TestNarrow(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		x := Widen(h)
		want := h
		if h&0x7fff > 0x7c00 {
			want |= 0x0200 // quiet
		}
		if back := Narrow(x); back != want {
			t.Fatalf("%#04x comes back as %#04x", h, back)
		}
		if h&0x7fff >= 0x7bff {
			continue
		}
		// Half way to the next larger magnitude goes to the even one, a float32 more or less to the nearer one.
		half := (x + Widen(h+1)) / 2
		even := h + h&1
		inward, outward := math.Float32frombits(math.Float32bits(half)-
			1), math.Float32frombits(math.Float32bits(half)+1)
		if Narrow(half) != even || Narrow(inward) != h || Narrow(outward) != h+1 {
			t.Fatalf("around %v: %#04x, %#04x, %#04x; want %#04x, %#04x, %#04x", half, Narrow(inward), Narrow(half),
				Narrow(outward), h, even, h+1)
		}
	}
	for x, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, -65520: 0xfc00, 1e30: 0x7c00, 0x1p-25: 0,
		0x1.000002p-25: 1, -0x1p-30: 0x8000} {
		if got := Narrow(x); got != want {
			t.Errorf("Narrow(%v) = %#04x, want %#04x", x, got, want)
		}
	}
}

// TestGGML compares with conversions that ggml made.
func TestGGML(t *testing.T) {
	data, err := os.ReadFile("../../testdata/vectors/float16_bfloat16.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Cases []struct {
			F32 string `json:"f32_bits"`
			F16 string `json:"f16"`
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil || len(doc.Cases) < 19 {
		t.Fatal(err, len(doc.Cases))
	}
	for _, c := range doc.Cases {
		x, err1 := strconv.ParseUint(c.F32, 16, 32)
		want, err2 := strconv.ParseUint(c.F16, 16, 16)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := Narrow(math.Float32frombits(uint32(x))); got != uint16(want) {
			t.Errorf("%s: %#04x, want %s", c.F32, got, c.F16)
		}
	}
}

// TestNarrowBrain compares with a rounding of math/big, also next to ties, where rounding twice goes wrong.
func TestNarrowBrain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		tie := float64(math.Float32frombits(r.Uint32()&0x7fff0000|0x8000)) * float64(1-2*r.IntN(2))
		if math.IsInf(tie, 0) || math.IsNaN(tie) || math.Abs(tie) < 0x1p-126 || math.Abs(tie) > 0x1p127 {
			continue
		}
		for _, x := range []float64{tie, math.Nextafter(tie, 0), math.Nextafter(tie, 2*tie),
			tie * (1 + r.Float64()/1024)} {
			want, _ := new(big.Float).SetPrec(8).SetFloat64(x).Float64()
			if got := WidenBrain(NarrowBrain(x)); float64(got) != want {
				t.Fatalf("%x is rounded to %x, want %x", x, got, want)
			}
		}
	}
}
