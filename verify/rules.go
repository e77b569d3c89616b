package verify

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/verify/internal/half"
)

// definition is a quantizer as its authors and docs/QUANTIZATION.md (N23, N24) define it, for weights that share a
// scale. It decides the code of a weight from the weight and a parameter of the unit; or about a whole row and its
// scale at once.
type definition struct {
	row func(w []float32, codes []int8, scale float32, dtype string) error // nil: fit and code decide
	// group is row for groups of columns of rules that have a row and may have a scale per group.
	group func(w []float32, codes []int8, scale float32, dtype string) error
	fit   func(x *extent, stored packed.ScaleType) ([]fit, error) // for scales that are stored in a type
	code  func(w, a float32) int8

	chosen func(scale float32) float32 // parameter of code for a scale that calibration chose; nil: it chooses none

	signed bool             // scales may be negative
	groups packed.ScaleType // type of group-wise scales; "" = F32
}

// scaleType is the type of the scales of a kind (N23).
func (d *definition) scaleType(kind packed.ScaleKind) packed.ScaleType {
	if kind == packed.ScaleGroup && d.groups != "" {
		return d.groups
	}
	return packed.ScaleF32
}

// fit is a stored scale and the parameter of code that goes with it.
type fit struct{ scale, a float32 }

// tiny: units whose step is below the smallest normal float count as zero (N23).
const tiny = 0x1p-126

// definitions of the quantizers by their names in the manifest.
var definitions = map[string]definition{
	// XNOR-Net, ParetoQ 1-bit; zero counts as positive.
	"sign": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			var list []fit
			for _, m := range x.means() {
				list = append(list, fit{m, 0})
			}
			return list, nil
		},
		code: func(w, _ float32) int8 {
			if w < 0 {
				return -1
			}
			return 1
		},
	},
	// BitNet b1.58: s = 1/max(mean|W|, 1e-5), code = clip(round half even(W·s), −1, 1), weight = code/s.
	"absmean": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			var list []fit
			for _, m := range x.means() {
				s := 1 / max(m, float32(1e-5))
				list = append(list, fit{1 / s, s})
			}
			return list, nil
		},
		code: func(w, s float32) int8 { return rounded(w*s, -1, 1) },
	},
	// PyTorch-TPP.
	"absmax": {fit: steps(func(x *extent) float32 { return max(x.most(), 1e-8) }), code: quotient(-1, 1),
		chosen: divisor},
	"int2": {fit: steps(func(x *extent) float32 { return max(x.hi, -x.lo/2) }), code: quotient(-2, 1), chosen: divisor,
		groups: packed.ScaleF16},
	"int8": {fit: steps(func(x *extent) float32 { return x.most() / 127 }), code: quotient(-127, 127),
		groups: packed.ScaleF16},
	"int3": integers(3), "int4": integers(4), "int5": integers(5), "int6": integers(6),
	// Weights that are 0 or ±s: code·s is the weight.
	"ternary-values": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			if x.most() != x.least() {
				return nil, fmt.Errorf("the magnitudes %v and %v cannot be one ternary scale", x.least(), x.most())
			}
			return []fit{{x.least(), x.least()}}, nil
		},
		code: func(w, s float32) int8 {
			switch w {
			case 0:
				return 0
			case s:
				return 1
			case -s:
				return -1
			}
			return noCode
		},
	},
	// ParetoQ 1.58-bit: value = round(clip(w/α, ±0.99)·1.5)/1.5·α.
	"ternary-elastic": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			a := max(x.most(), 1e-5)
			third := float32(1) / 1.5
			return []fit{{third * a, a}}, nil
		},
		code: func(w, a float32) int8 { return rounded(float32(stretched(w, a)*1.5), -1, 1) },
	},
	// ParetoQ 2-bit: value = (round(clip(w/α, ±0.99)·2 − 0.5) + 0.5)/2·α; the code is four times the value over α.
	"int2-elastic": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			a := max(x.most(), 1e-5)
			return []fit{{a / 4, a}}, nil
		},
		code: func(w, a float32) int8 { return 2*rounded(float32(stretched(w, a)*2)-0.5, -2, 1) + 1 },
	},
	// Weights that are codes times a scale, rounded to their type (ParetoQ): signs, ±1 and ±3, −4 to 3, −8 to 7.
	"sign-values": {row: latticeRow{zero: 1}.check, group: signGroup},
	"int2-values": {row: latticeRow{zero: 1}.check},
	"int3-values": {row: latticeRow{zero: 0}.check},
	"int4-values": {row: latticeRow{zero: 0}.check},
	// ggml Q2_0: d = max|w|, code = round half away(w·(1/d)), the scale is d as a binary16.
	"q2_0": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			d := x.most()
			if h := half.Round(d); h > 0 {
				return []fit{{h, 1 / d}}, nil
			}
			return []fit{{0, 0}}, nil
		},
		code: func(w, inv float32) int8 {
			return int8(math.Max(-1, math.Min(2, math.Round(float64(float32(w*inv))))))
		},
		groups: packed.ScaleF16,
	},
	// The values of ggml's IQ4_NL: s = m/−127, at least the smallest number that weights are divided by.
	"iq4nl": {
		fit: func(x *extent, stored packed.ScaleType) ([]fit, error) {
			s, least := x.extreme()/-127, float32(tiny)
			if stored != packed.ScaleF32 {
				s, least = half.Round(s), 0x1p-24
			}
			switch {
			case x.most() == 0:
				return []fit{{0, float32(math.Inf(1))}}, nil
			case 0 <= s && s < least && x.extreme() < 0:
				s = least
			case -least < s && s <= 0:
				s = -least
			}
			return []fit{{s, s}}, nil
		},
		code: nearestIQ4NL, chosen: divisor, signed: true, groups: packed.ScaleF16,
	},
	// OCP MX 1.0: E = floor(log2 max|w|) − 2 in the range of E8M0. Codes are twice the elements, the scale is 2^E/2.
	"mxfp4": {
		fit: func(x *extent, _ packed.ScaleType) ([]fit, error) {
			e := -127.0
			if m := float64(x.most()); m > 0 {
				e = math.Max(-127, float64(math.Ilogb(m)-2))
			}
			return []fit{{float32(math.Exp2(e - 1)), float32(math.Exp2(e))}}, nil
		},
		code:   func(w, unit float32) int8 { return nearestE2M1(float64(w) / float64(unit)) },
		chosen: func(scale float32) float32 { return 2 * scale },
		groups: packed.ScaleE8M0,
	},
}

// integers defines the quantizers to all integers of some bits: ggml Q4_0 (of 4 bits), but that the negative one of two
// equal magnitudes counts. The weight of largest magnitude has the lowest code.
func integers(bits int) definition {
	lowest := -math.Exp2(float64(bits - 1))
	return definition{
		fit: steps(func(x *extent) float32 {
			return x.extreme() / float32(lowest)
		}),
		code: quotient(lowest, -lowest-1), chosen: divisor, signed: true, groups: packed.ScaleF16,
	}
}

// divisor of the weights of a unit; those with a scale of 0 are zeros.
func divisor(scale float32) float32 {
	if scale == 0 {
		return float32(math.Inf(1))
	}
	return scale
}

// noCode is in no alphabet.
const noCode = -128

// steps returns the fit of quantizers that divide by their scale.
func steps(scale func(x *extent) float32) func(*extent, packed.ScaleType) ([]fit, error) {
	return func(x *extent, stored packed.ScaleType) ([]fit, error) {
		s := scale(x)
		if stored == packed.ScaleF16 {
			s = half.Round(s)
		}
		if -tiny < s && s < tiny {
			return []fit{{0, float32(math.Inf(1))}}, nil
		}
		return []fit{{s, s}}, nil
	}
}

// quotient is the code clip(round half even(w/s), lo, hi).
func quotient(lo, hi float64) func(w, s float32) int8 {
	return func(w, s float32) int8 { return rounded(w/s, lo, hi) }
}

// rounded is x rounded half to even and clipped.
func rounded(x float32, lo, hi float64) int8 {
	return int8(math.RoundToEven(max(lo, min(hi, float64(x))))) // lo and hi are integers
}

// stretched is w/α, clipped as ParetoQ does.
func stretched(w, a float32) float32 {
	const limit = float32(0.99)
	return max(-limit, min(limit, w/a))
}

// nearestE2M1 looks the nearest element up and returns twice its value; of two equally near ones the one with an even
// mantissa, which has an even number in the list.
func nearestE2M1(x float64) int8 {
	elements := [...]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	best := 0
	for i, v := range elements {
		near, far := math.Abs(math.Abs(x)-v), math.Abs(math.Abs(x)-elements[best])
		if near < far || near == far && i%2 == 0 {
			best = i
		}
	}
	return int8(math.Copysign(2*elements[best], x))
}

// nearestIQ4NL looks the nearest value up, the larger of two.
func nearestIQ4NL(w, s float32) int8 {
	values := [...]float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	x, best := float64(w/s), values[0]
	for _, v := range values {
		if math.Abs(x-v) <= math.Abs(x-best) {
			best = v
		}
	}
	return int8(best)
}
