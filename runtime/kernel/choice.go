package kernel

import (
	"cmp"
	"slices"
)

// Choice. Better instruction sets come first: nothing measured contradicts that. Of the kernels of one instruction set
// for a layout, the layout's own and the one that packs every layout again, the better one in the table Measured comes
// first, or the layout's own where it was not measured. What counts is the product with one token, of which decoding is
// made; batches would choose the same, but for sign weights of VNNI4I on AVX2. Who packs again must be better by a quarter:
// that costs a second copy of the weights in memory, and the time to make it whenever a file is opened (328 MB and 0.4 s for an
// int8 head of 128,256 rows).
const packAgainGain = 1.25

// Measurement is what one core of a Zen 4 server reached with a kernel.
type Measurement struct {
	Kernel   string  `json:"kernel"` // as Kernel.String
	Alphabet string  `json:"alphabet"`
	Vector   float64 `json:"vector"` // operations in a nanosecond with one token; a weight is two
	Batch    float64 `json:"batch"`  // the same with 128 tokens
}

// Measured is the table that the choice rests on.
func Measured() []Measurement { return slices.Clone(measured) }

// vector is what the speed of k with one token is worth; ok is false if it was not measured.
func (k *Kernel) vector(alphabet string) (speed float64, ok bool) {
	for _, m := range measured {
		if m.Kernel == k.String() && m.Alphabet == alphabet {
			if k.Layout == "*" {
				return m.Vector / packAgainGain, true
			}
			return m.Vector, true
		}
	}
	return 0, false
}

// prefer sorts kernels that serve weights of one alphabet, the best first.
func prefer(list []*Kernel, alphabet string) {
	slices.SortStableFunc(list, func(a, b *Kernel) int {
		if c := cmp.Compare(rung(a.ISA), rung(b.ISA)); c != 0 {
			return c
		}
		x, hasX := a.vector(alphabet)
		y, hasY := b.vector(alphabet)
		if hasX && hasY {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(b.Layout, a.Layout) // "*" is before all letters
	})
}

// rung is the place of an instruction set in the ladder.
func rung(isa ISA) int {
	for i, step := range ladder {
		if step.isa == isa {
			return i
		}
	}
	panic("kernel: unknown instruction set " + isa)
}
