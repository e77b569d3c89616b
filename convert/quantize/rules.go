package quantize

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// ScaleKind is a scale granularity.
type ScaleKind string

// The kinds of scales.
const (
	PerTensor ScaleKind = "tensor"
	PerRow    ScaleKind = "row"
	PerGroup  ScaleKind = "group" // of columns of a row
)

// ScaleType is the type of stored scales.
type ScaleType string

// The types of scales.
const (
	ScaleF32  ScaleType = "F32"
	ScaleF16  ScaleType = "F16"
	ScaleE8M0 ScaleType = "E8M0" // a power of two
)

// Rule is one way to turn floats into codes.
type Rule struct {
	Name     string // as in --quant and in the manifest
	Doc      string // the formula and its source
	Alphabet pack.Alphabet
	Kinds    []ScaleKind // that it may have; the first is the default
	Group    int         // columns per scale where the rule fixes them; 0 = the user chooses
	Signed   bool        // scales may be negative

	groupScales ScaleType // of group-wise scales; "" = F32
	// fit computes the stored scale and the parameter of code from the statistics of the weights of one scale. It
	// rounds a scale to the stored type before codes depend on it.
	fit func(s stat, round rounding) (scale, a float32)
	// code returns the code of a weight. With a > 0 it never decreases when w grows, and it is the same for −0 and +0.
	code   func(w, a float32) int8
	lowest int8    // ≠ 0: code is clip(rne(w/a)) from it to the last of the alphabet
	search *search // scale search by calibration; nil: none
	// exact is set for exact rules, which find the scale of a row from its values (values.go) and have neither fit nor
	// code. most > 0 is the row's largest magnitude.
	exact func(r *Rule, d DType, src []byte, most float32) (rowScale, error)
}

// Exact reports whether the rule imports values that already fit its alphabet; it refuses others.
func (r Rule) Exact() bool { return r.exact != nil }

// kindNames are the kinds of scales for a message.
func (r Rule) kindNames() string {
	names := make([]string, len(r.Kinds))
	for i, k := range r.Kinds {
		names[i] = string(k)
	}
	return strings.Join(names, " or ")
}

// ScaleType returns the type of scales of a kind. Per-row and per-tensor scales take next to no space in any type.
func (r Rule) ScaleType(kind ScaleKind) ScaleType {
	if kind == PerGroup && r.groupScales != "" {
		return r.groupScales
	}
	return ScaleF32
}

// rounding rounds a scale to the type in which it is stored.
type rounding func(float32) float32

// roundTo is the rounding to a type; a power of two is one already.
func roundTo(scaleType ScaleType) rounding {
	if scaleType == ScaleF16 {
		return func(s float32) float32 { return float16.Widen(float16.Narrow(s)) }
	}
	return func(s float32) float32 { return s }
}

// Rules lists the rules that make codes from floats, by the width of the codes.
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{
	{
		Name: "sign", Alphabet: pack.Int1, Kinds: []ScaleKind{PerRow, PerTensor},
		Doc: "a = mean|w|; w ≥ 0 → +a, else −a (zero counts as +; XNOR-Net, ParetoQ 1-bit)",
		fit: func(s stat, _ rounding) (float32, float32) { return s.mean, 0 },
		code: func(w, _ float32) int8 {
			if w >= 0 {
				return 1
			}
			return -1
		},
	}, {
		Name: "sign-values", Alphabet: pack.Int1, Kinds: []ScaleKind{PerRow, PerGroup}, exact: oneMagnitude,
		Doc: "weights that are ±s already: code = sign(w), scale s; a row may hold one zero in 256, which counts as " +
			"+ and is told (ParetoQ 1-bit, stored as floats; Bonsai 1-bit by groups of 128, which hold no zero)",
	}, {
		Name: "absmean", Alphabet: pack.Ternary, Kinds: []ScaleKind{PerTensor, PerRow, PerGroup},
		Doc: "s = 1/max(mean|w|, 1e-5); code = clip(rne(w·s), −1, 1); scale 1/s (BitNet b1.58)",
		fit: func(s stat, _ rounding) (float32, float32) {
			inv := 1 / max(s.mean, 1e-5)
			return 1 / inv, inv
		},
		code: func(w, a float32) int8 { return int8(clip(rne(w*a), -1, 1)) },
	}, {
		Name: "absmax", Alphabet: pack.Ternary, Kinds: []ScaleKind{PerRow, PerGroup},
		Doc:  "s = max(max|w|, 1e-8); code = clip(rne(w/s), −1, 1); scale s (PyTorch-TPP)",
		fit:  func(s stat, _ rounding) (float32, float32) { return step(max(s.maxAbs(), 1e-8)) },
		code: func(w, a float32) int8 { return int8(clip(rne(w/a), -1, 1)) }, search: searchFew,
	}, {
		Name:     "ternary-values",
		Alphabet: pack.Ternary,
		Kinds:    []ScaleKind{PerTensor, PerRow, PerGroup},
		exact:    oneMagnitude,
		Doc: "weights that are 0 or ±s already: code = sign(w), scale s; one s per tensor, else per row, or per " +
			"group (Bonsai ternary: 128)",
	}, {
		Name: "ternary-elastic", Alphabet: pack.Ternary, Kinds: []ScaleKind{PerRow},
		Doc: "α = max(max|w|, 1e-5); value = rne(clip(w/α, −0.99, 0.99)·1.5)/1.5·α (ParetoQ 1.58-bit)",
		fit: func(s stat, _ rounding) (float32, float32) {
			a := max(s.maxAbs(), 1e-5)
			return float32(1) / 1.5 * a, a
		},
		code: func(w, a float32) int8 { return int8(rne(clip(w/a, -0.99, 0.99) * 1.5)) },
	}, {
		Name: "int2", Alphabet: pack.Int2, Kinds: []ScaleKind{PerRow, PerTensor, PerGroup}, groupScales: ScaleF16,
		Doc: "s = max(max w, −min w/2): the smallest scale that clips nothing; code = clip(rne(w/s), −2, 1); s of " +
			"groups as float16",
		fit:  func(s stat, round rounding) (float32, float32) { return step(round(max(s.pos, s.neg/2))) },
		code: func(w, a float32) int8 { return int8(clip(rne(w/a), -2, 1)) }, search: searchFew,
	}, {
		Name: "int2-elastic", Alphabet: pack.Int2Odd, Kinds: []ScaleKind{PerRow},
		Doc: "α = max(max|w|, 1e-5); value = (rne(clip(w/α, −0.99, 0.99)·2 − 0.5) + 0.5)/2·α; code 2·rne(…) + 1, " +
			"scale α/4 (ParetoQ 2-bit)",
		fit: func(s stat, _ rounding) (float32, float32) {
			a := max(s.maxAbs(), 1e-5)
			return a / 4, a
		},
		code: func(w, a float32) int8 { return int8(2*rne(float32(clip(w/a, -0.99, 0.99)*2)-0.5) + 1) },
	}, {
		Name: "int2-values", Alphabet: pack.Int2Odd, Kinds: []ScaleKind{PerRow}, exact: lattice,
		Doc: "weights that are ±s or ±3s already, rounded to their type: codes ±1, ±3, and an s that gives them back " +
			"bit for bit (ParetoQ 2-bit, stored as floats)",
	}, {
		Name: "q2_0", Alphabet: pack.Int2Q, Kinds: []ScaleKind{PerGroup}, Group: 64, groupScales: ScaleF16,
		Doc: "d = max|w|; code = clip(round half away(w·(1/d)), −1, 2); scale d as float16 (ggml Q2_0)",
		fit: func(s stat, round rounding) (float32, float32) {
			d := s.maxAbs()
			if half := round(d); half > 0 {
				return half, 1 / d
			}
			return 0, 0
		},
		code: func(w, a float32) int8 { return int8(clip(float32(math.Round(float64(w*a))), -1, 2)) },
	},
	signedInts(pack.Int3, ""),
	intValues(pack.Int3, "3"),
	signedInts(pack.Int4, " (ggml Q4_0)"),
	intValues(pack.Int4, "4"),
	{
		Name: "mxfp4", Alphabet: pack.E2M1, Kinds: []ScaleKind{PerGroup}, Group: 32, groupScales: ScaleE8M0,
		Doc: "E = floor(log2 max|w|) − 2; element = w/2^E rounded to E2M1, ties to even, saturating; scale 2^E/2, as " +
			"codes are twice the elements (OCP MX 1.0)",
		fit: fitMX, code: codeMX, search: searchPowers,
	},
	{
		Name: "iq4nl", Alphabet: pack.IQ4NL, Kinds: []ScaleKind{PerRow, PerTensor, PerGroup}, Signed: true,
		groupScales: ScaleF16,
		Doc: "s = m/−127, m the weight of largest magnitude (the negative one of two): m becomes −127; code = the " +
			"value nearest to w/s, the larger of two, of 16 that lie closer near zero; s of groups as float16 (the " +
			"values of ggml IQ4_NL)",
		fit: fitNonlinear, code: codeNonlinear, search: searchInts,
	},
	signedInts(pack.Int5, " (ggml Q5_0)"),
	signedInts(pack.Int6, ""),
	{
		Name: "int8", Alphabet: pack.Int8, Kinds: []ScaleKind{PerRow, PerTensor, PerGroup}, groupScales: ScaleF16,
		Doc:  "s = max|w|/127; code = clip(rne(w/s), −127, 127); s of groups as float16",
		fit:  func(s stat, round rounding) (float32, float32) { return step(round(s.maxAbs() / 127)) },
		code: func(w, a float32) int8 { return int8(clip(rne(w/a), -127, 127)) }, lowest: -127,
	},
}

// signedInts is the rule for all integers of some bits, which it has its name from: the weight of largest magnitude
// becomes the lowest of them, so that no code is spared.
func signedInts(a pack.Alphabet, source string) Rule {
	lowest, highest := a.Values[0], a.Values[len(a.Values)-1]
	return Rule{
		Name: a.Name, Alphabet: a, Kinds: []ScaleKind{PerRow, PerTensor, PerGroup}, Signed: true, groupScales: ScaleF16,
		Doc: fmt.Sprintf("s = m/−%d, m the weight of largest magnitude (the negative one of two): m becomes −%[1]d; "+
			"code = clip(rne(w/s), −%[1]d, %d); s of groups as float16%s", -int(lowest), highest, source),
		fit:    func(s stat, round rounding) (float32, float32) { return step(round(s.extreme() / float32(lowest))) },
		code:   func(w, a float32) int8 { return int8(clip(rne(w/a), float32(lowest), float32(highest))) },
		lowest: lowest, search: searchInts,
	}
}

// intValues is the exact rule for all integers of some bits.
func intValues(a pack.Alphabet, bits string) Rule {
	lowest, highest := a.Values[0], a.Values[len(a.Values)-1]
	return Rule{
		Name: a.Name + "-values", Alphabet: a, Kinds: []ScaleKind{PerRow}, exact: lattice, lowest: lowest,
		Doc: fmt.Sprintf("weights that are integers from −%d to %d times s already, rounded to their type: those "+
			"codes, and an s that gives them back bit for bit (ParetoQ %s-bit, stored as floats)", -int(lowest),
			highest, bits),
	}
}

// Find returns the rule of that name.
func Find(name string) (Rule, error) {
	var names []string
	for _, r := range rules {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Rule{}, fmt.Errorf("%w: quantizer %q; there are %s", pack.ErrUnsupported, name, strings.Join(names, ", "))
}

// rne rounds to an integer, ties to even.
func rne(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

func clip(x, lo, hi float32) float32 { return min(max(x, lo), hi) }

// step returns the scale of rules that divide by it. Below the smallest normal float the quotient w/s loses precision,
// and at zero its meaning: such weights become zeros, by w/∞ and a scale of 0.
func step(s float32) (scale, parameter float32) {
	if max(s, -s) < 0x1p-126 {
		return 0, float32(math.Inf(1))
	}
	return s, s
}
