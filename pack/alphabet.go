package pack

import "fmt"

// Alphabet is the set of integers that a code may be.
type Alphabet struct {
	Name   string
	Values []int8 // ascending
}

// The alphabets. Codes are integers, so that kernels stay exact; a quantizer's own convention adds only a power of two,
// which goes into the scale: a stretched level of ±0.25 or ±0.75 is a code of ±1 or ±3 with a scale of α/4, an E2M1
// element is half of its code.
var (
	Ternary = Alphabet{"ternary", []int8{-1, 0, 1}}
	Int1    = Alphabet{"int1", []int8{-1, 1}}
	Int2    = Alphabet{"int2", []int8{-2, -1, 0, 1}}
	Int2Odd = Alphabet{"int2odd", []int8{-3, -1, 1, 3}}
	Int2Q   = Alphabet{"int2q", []int8{-1, 0, 1, 2}} // ggml Q2_0
	Int3    = Alphabet{"int3", span(-4, 3)}
	Int4    = Alphabet{"int4", span(-8, 7)}
	Int5    = Alphabet{"int5", span(-16, 15)}
	Int6    = Alphabet{"int6", span(-32, 31)}
	Int8    = Alphabet{"int8", span(-128, 127)}
	E2M1    = Alphabet{"e2m1", []int8{-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12}}
	// IQ4NL is the table of ggml's IQ4_NL and IQ4_XS, kvalues_iq4nl. It has no zero.
	IQ4NL = Alphabet{"iq4nl", []int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}}
	// The magnitudes in the grids of ggml's i-quants, with both signs: Int4Odd of IQ3_S, and eight times a ternary
	// digit and its shift of 1/8 of IQ1_S and IQ1_M; IQ2 of IQ2_XXS, IQ2_XS and IQ2_S; IQ3XXS half of those of IQ3_XXS.
	Int4Odd = Alphabet{"int4odd", []int8{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}}
	IQ2     = Alphabet{"iq2", []int8{-43, -25, -8, 8, 25, 43}}
	IQ3XXS  = Alphabet{"iq3xxs", []int8{-31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31}}
)

// Alphabets in the order of their width.
func Alphabets() []Alphabet {
	return []Alphabet{Int1, Ternary, Int2, Int2Odd, Int2Q, Int3, IQ2, Int4, Int4Odd, E2M1, IQ4NL, IQ3XXS, Int5, Int6,
		Int8}
}

// FindAlphabet returns the alphabet with that name.
func FindAlphabet(name string) (Alphabet, error) {
	for _, a := range Alphabets() {
		if a.Name == name {
			return a, nil
		}
	}
	return Alphabet{}, fmt.Errorf("%w: alphabet %q", ErrUnsupported, name)
}

// Subset reports whether every value of a is a value of b, so that codes of a may be stored in a layout for b.
func (a Alphabet) Subset(b Alphabet) bool {
	legal := b.legal()
	for _, v := range a.Values {
		if !legal[uint8(v)] {
			return false
		}
	}
	return true
}

// legal is a table over the two's complement byte of a code.
func (a Alphabet) legal() *[256]bool {
	var t [256]bool
	for _, v := range a.Values {
		t[uint8(v)] = true
	}
	return &t
}

func span(lo, hi int) []int8 {
	s := make([]int8, 0, hi-lo+1)
	for v := lo; v <= hi; v++ {
		s = append(s, int8(v))
	}
	return s
}
