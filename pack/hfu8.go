package pack

// HF uint8 (transformers, BitNet checkpoints): the tensor U8 [⌈M/4⌉][K] of packed checkpoints. A byte holds four rows
// that lie R = ⌈M/4⌉ apart, the first one in bits 0–1, code weight + 1. Rows past M leave their field 0, which the code
// table would read as −1: the true M is known from the configuration alone.

func hfLayouts() []definition {
	return []definition{{
		Info: Info{
			Name: "hf-u8", Version: 1,
			Source:    "Hugging Face transformers, packed BitNet checkpoints",
			Summary:   "four rows that lie M/4 apart per byte: the form in which ternary checkpoints are published",
			Alphabets: []Alphabet{Ternary},
			Let:       []string{"R = M/4"},
			Address:   []Rule{{Byte: "m%R*K + k", Bit: "2*(m/R)"}},
			Note: "Rows past the last one have digit 0, not the digit of weight zero: the bytes do " +
				"not tell the true M.",
			Example: Shape{8, 16},
		}, open: func(s Spec) (Layout, error) { return openHF(s), nil },
	}}
}

func openHF(s Spec) Layout {
	c := ascending(Ternary)
	c.pad = 0
	return &formula{
		spec: s, code: c, radix: 4, cell: 2,
		padded: roundUp(4, 1),
		size:   dense(2),
		at: func(s Shape, m, k int) place {
			r := s.M / 4
			return place{At: m%r*s.K + k, Bit: 2 * (m / r), Unit: 1}
		},
		fast: fourRows(0, [4]int{0, 1, 2, 3}, func(t *strip) int { return t.row*t.s.K + t.col }),
	}
}
