package quantize

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"
)

// half is the value of a pattern with e bits of exponent and m bits of fraction, from the definition of IEEE 754.
func half(pattern uint16, e, m int) float64 {
	sign, bias := 1.0, 1<<(e-1)-1
	if pattern>>15 != 0 {
		sign = -1
	}
	exponent, fraction := int(pattern>>m)&(1<<e-1), float64(int(pattern)&(1<<m-1))
	switch {
	case exponent == 1<<e-1 && fraction == 0:
		return math.Inf(int(sign))
	case exponent == 1<<e-1:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(fraction, 1-bias-m)
	}
	return sign * math.Ldexp(fraction+float64(int(1)<<m), exponent-bias-m)
}

// TestWidenIsExact tries all 65,536 patterns of both 16-bit types.
func TestWidenIsExact(t *testing.T) {
	for d, bits := range map[DType][2]int{BF16: {8, 7}, F16: {5, 10}} {
		for p := range 1 << 16 {
			var got [1]float32
			d.Widen(got[:], binary.LittleEndian.AppendUint16(nil, uint16(p)))
			want := half(uint16(p), bits[0], bits[1])
			if v := float64(got[0]); v != want && !(math.IsNaN(v) && math.IsNaN(want)) ||
				math.Signbit(v) != math.Signbit(want) && want == want {
				t.Fatalf("%s %#04x: %v, want %v", d, p, v, want)
			}
		}
	}
}

// TestFloatBytes: Widen reads back what FloatBytes wrote, signs of zeros and payloads included.
func TestFloatBytes(t *testing.T) {
	for _, bits := range []uint32{0, 1 << 31, 1, 0x3f800000, 0xff7fffff, 0x7f800000, 0x7fc00001} {
		b := FloatBytes([]float32{1, math.Float32frombits(bits)})
		if got := binary.LittleEndian.Uint32(b[4:]); len(b) != 8 || got != bits {
			t.Errorf("%#08x in %d bytes, want %#08x in 8", got, len(b), bits)
		}
		var x [2]float32
		if F32.Widen(x[:], b); x[0] != 1 || math.Float32bits(x[1]) != bits {
			t.Errorf("%#08x comes back as %v", bits, x)
		}
	}
}

// TestKeys walks all finite 16-bit values in the order of their keys: values increase, and every key converts back to
// its value.
func TestKeys(t *testing.T) {
	for _, d := range []DType{BF16, F16} {
		last := math.Inf(-1)
		for key := -d.maxKey() - 1; key <= d.maxKey(); key++ {
			v := float64(d.value(key))
			if math.IsInf(v, 0) || math.IsNaN(v) || v < last || v == last && key != 0 {
				t.Fatalf("%s: key %d has value %v after %v", d, key, v, last)
			}
			if back := int32(key16(unkey16(int16(key)))); back != key {
				t.Fatalf("%s: key %d comes back as %d", d, key, back)
			}
			last = v
		}
		if v := d.value(d.maxKey() + 1); !math.IsInf(float64(v), 1) {
			t.Errorf("%s: %v follows the largest value", d, v)
		}
	}
	for _, b := range []uint32{0, 1 << 31, 1, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800001} {
		if unkey32(key32(b)) != b {
			t.Errorf("%#08x does not come back", b)
		}
	}
	if key32(1<<31) != -1 || key32(0) != 0 {
		t.Error("−0 is not directly below +0")
	}
}

func unmarshal(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
