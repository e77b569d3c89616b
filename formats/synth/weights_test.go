package synth

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// floats returns the values of a 16-bit tensor.
func (t *tensor) floats() []float64 {
	p := t.all()
	out := make([]float64, len(p)/2)
	for i := range out {
		out[i] = widen(t.DType, binary.LittleEndian.Uint16(p[2*i:]))
	}
	return out
}

// widen follows the definition of the formats.
func widen(d safetensors.DType, b uint16) float64 {
	mantissa, bias := 7, 127
	if d == safetensors.F16 {
		mantissa, bias = 10, 15
	}
	e, m := int(b&0x7FFF)>>mantissa, int(b)&(1<<mantissa-1)
	v := math.Ldexp(float64(m), 1-bias-mantissa)
	if e > 0 {
		v = math.Ldexp(float64(m+1<<mantissa), e-bias-mantissa)
	}
	if b>>15 == 1 {
		return -v
	}
	return v
}

// TestBits rounds every 16-bit number, the midpoint between it and the next one, and values next to the midpoint.
func TestBits(t *testing.T) {
	for _, d := range []safetensors.DType{safetensors.BF16, safetensors.F16} {
		infinity := uint16(0x7F80)
		if d == safetensors.F16 {
			infinity = 0x7C00
		}
		for b := uint16(0); b < infinity-1; b++ {
			v, next := widen(d, b), widen(d, b+1)
			even := b + b&1
			for _, c := range []struct {
				x    float64
				want uint16
			}{{v, b}, {-v, b | 0x8000}, {(v + next) / 2, even}, {math.Nextafter((v+next)/2, 0), b},
				{math.Nextafter((v+next)/2, 1e300), b + 1}} {
				if c.x == 0 {
					continue // zero has the sign of x
				}
				if got := uint16(bits(d, c.x)); got != c.want {
					t.Fatalf("%s: %g is %#04x, want %#04x", d, c.x, got, c.want)
				}
			}
		}
		if bits(d, 0) != 0 || bits(d, math.Copysign(0, -1)) != 0x8000 {
			t.Errorf("%s: zero", d)
		}
	}
}

// TestTablesAreTheSameEverywhere: no quantile is so close to a rounding boundary that another math library, or a fused
// multiply–add, could round it differently.
func TestTablesAreTheSameEverywhere(t *testing.T) {
	for name, magnitude := range map[string]func(float64) float64{"normal": normalMagnitude,
		"trained": trainedMagnitude(1.09)} {
		for j := 0; j < cells/2; j++ {
			x := magnitude((float64(j)+0.5)/(cells/2)) * (1 << 20)
			if distance := math.Abs(x - math.Floor(x) - 0.5); distance < 1e-7 {
				t.Errorf("%s: quantile %d is %g from a boundary", name, j, distance)
			}
		}
	}
}

func TestShareOfZeros(t *testing.T) {
	for _, zeros := range []float64{0.297, 0.357, 0.422} {
		p := plan(t, "bitnet-2b4t-bf16", func(o *Options) { o.Mini, o.Zeros = true, zeros })
		n, zero := 0, 0
		for _, b := range p.Description.Blocks {
			w := p.tensor(b.Up.Weight).floats()
			mean := 0.0
			for _, v := range w {
				mean += math.Abs(v) / float64(len(w))
			}
			for _, v := range w {
				if n++; math.RoundToEven(v/mean) == 0 {
					zero++
				}
			}
		}
		if got := float64(zero) / float64(n); math.Abs(got-zeros) > 0.02 {
			t.Errorf("absmean codes have %.3f zeros, want %.3f", got, zeros)
		}
		packed := plan(t, "bitnet-2b4t", func(o *Options) { o.Mini, o.Zeros = true, zeros })
		if got := shareOfCodes(t,
			packed.tensor(packed.Description.Blocks[0].Up.Weight).all()); math.Abs(got-zeros) > 0.02 {
			t.Errorf("packed codes have %.3f zeros, want %.3f", got, zeros)
		}
	}
}

// shareOfCodes is the share of zero codes; code 3 must not occur, and −1 and +1 must be about equally frequent.
func shareOfCodes(t *testing.T, p []byte) float64 {
	t.Helper()
	var count [4]int
	for _, b := range p {
		for field := range 4 {
			count[b>>(2*field)&3]++
		}
	}
	if count[3] != 0 || math.Abs(float64(count[0]-count[2])) > 0.05*float64(count[0]+count[2]) {
		t.Errorf("codes are distributed %v", count)
	}
	return float64(count[1]) / float64(4*len(p))
}

// TestRowsPastTheEnd: if M is not a multiple of 4 the fields of rows past the end are zero, all others are codes.
func TestRowsPastTheEnd(t *testing.T) {
	for m := 1; m <= 9; m++ {
		const k = 101
		f := newCodes(newStream(1, "w"), m, k, 0.42)
		rows := (m + 3) / 4
		p := make([]byte, rows*k)
		f.fill(p, 0)
		seen := false
		for i, b := range p {
			for field := range 4 {
				code, row := b>>(2*field)&3, i/k+field*rows
				seen = seen || code != 0
				if row >= m && code != 0 || code == 3 {
					t.Fatalf("M = %d: code %d in row %d", m, code, row)
				}
			}
		}
		if !seen {
			t.Errorf("M = %d: no codes at all", m)
		}
	}
}

// TestLevels: floats as from training with quantization have exactly the levels of their kind, per row or per tensor.
func TestLevels(t *testing.T) {
	for _, c := range []struct {
		weights   Weights
		levels    int // distinct values in a row
		perTensor int // distinct magnitudes in the tensor, without zero; 0 = as many as rows or more
	}{
		{Ternary, 3, 1}, {TernaryShards, 3, 4}, {Levels1, 2, 0}, {Levels158, 3, 0}, {Levels2, 4, 0}, {Levels3, 8, 0},
		{Levels4, 16, 0},
	} {
		p := plan(t, "trilm-99m", func(o *Options) { o.Mini, o.Weights = true, c.weights })
		l := p.Description.Blocks[1].Down
		w := p.tensor(l.Weight).floats()
		magnitudes := map[float64]bool{}
		for row := range l.Out {
			values := map[float64]bool{}
			for _, v := range w[row*l.In : (row+1)*l.In] {
				values[v] = true
				if v != 0 {
					magnitudes[math.Abs(v)] = true
				}
			}
			// with many levels a row may lack the rare ones
			if len(values) > c.levels || len(values) < min(c.levels, 6) {
				t.Errorf("%s: row %d has %d values, want %d", c.weights, row, len(values), c.levels)
			}
		}
		if c.perTensor != 0 && len(magnitudes) != c.perTensor {
			t.Errorf("%s: %d magnitudes, want %d", c.weights, len(magnitudes), c.perTensor)
		}
		if c.perTensor == 0 && len(magnitudes) < l.Out/2 {
			t.Errorf("%s: %d magnitudes in %d rows", c.weights, len(magnitudes), l.Out)
		}
	}
}

// TestSizeOfWeights: outputs of a linear layer with inputs of size 1 have size 1, or the size that the residual stream
// requires.
func TestSizeOfWeights(t *testing.T) {
	for _, weights := range []Weights{Normal, AbsMean, Ternary, TernaryShards, Levels1, Levels158, Levels2,
		Levels3, Levels4} {
		p := plan(t, "llama-3.2-1b", func(o *Options) { o.Mini, o.Weights = true, weights })
		for want, l := range map[float64]string{1: p.Description.Blocks[0].Gate.Weight,
			0.5: p.Description.Blocks[0].Down.Weight} {
			x := p.tensor(l)
			sum := 0.0
			w := x.floats()
			for _, v := range w {
				sum += v * v
			}
			if got := math.Sqrt(sum / float64(len(w)) * float64(x.Shape[1])); math.Abs(got-want) > 0.1*want {
				t.Errorf("%s: %s gives outputs of size %.3f, want %.3f", weights, l, got, want)
			}
		}
		norm := p.tensor(p.Description.FinalNorm.Weight).floats()
		mean := 0.0
		for _, v := range norm {
			mean += v / float64(len(norm))
		}
		if math.Abs(mean-1) > 0.1 {
			t.Errorf("norm weights have mean %.3f", mean)
		}
	}
}
