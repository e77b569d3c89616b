package kernel

import (
	"cmp"
	"fmt"
	"slices"
)

// threshold is the number of tokens from which kernels of an instruction set multiply in another way. What is best
// depends on the CPU, and changes no output.
type threshold struct {
	isa    ISA
	layout string // "" = all others
	tokens int
	from   string // what it was measured on, date and revision
}

// vecLUTTokens says from where on tables of Vec-LUT beat multiplying: with fewer, too much of their 32 tokens is
// wasted (docs/notes/kernels.md).
var vecLUTTokens = []threshold{
	{AVX2, "vnni4i", 26, zen4AVX2},
	{AVX2, "vnni4i-64", 24, zen4AVX2},
	{AVX2, "vnni4t", 10, zen4AVX2},
	{AVX2, "i2s", 28, zen4AVX2},
	{AVX2, "", 20, zen4AVX2},
	{AVXVNNI, "", 20, "not measured: that of AVX2 before its tiles of six tokens, 2026-11-22, revision 9c596ba5"},
	{DotProd, "", 28, estimated},
	{NEON, "", 12, estimated},
}

// openedTokens says from where on digits in two planes become int8 first. With 512 bits it is a part of Tuning.
var openedTokens = []threshold{
	{AVXVNNI, "", 8, "Sapphire Rapids, family 6 model 143, 2026-11-28, revision 41d07a56"},
	{DotProd, "", 8, estimated},
	{NEON, "", 4, estimated},
}

const (
	zen4AVX2  = "Zen 4, family 25 model 17, kernels for AVX2, 2026-11-29, revision c9bb8066"
	estimated = "estimated from instructions (docs/notes/neon.md)"
)

// tokensFrom looks a matrix up in a table; 0 if there is no line for it.
func tokensFrom(table []threshold, w *Weights) int {
	isa, layout := w.Kernel.ISA, w.Layout.Spec().Name
	i := slices.IndexFunc(table, func(t threshold) bool {
		return t.isa == isa && (t.layout == "" || t.layout == layout)
	})
	if i < 0 {
		return 0
	}
	return table[i].tokens
}

// Thresholds says for people from how many tokens on the kernels of an instruction set multiply in another way, and
// where that was measured; nothing for sets whose thresholds are those of Tuned.
func Thresholds(isa ISA) (lines []string) {
	for _, way := range []struct {
		name  string
		table []threshold
	}{{"Vec-LUT", vecLUTTokens}, {"int8 in place of two planes", openedTokens}} {
		for _, t := range way.table {
			if t.isa == isa {
				lines = append(lines, fmt.Sprintf("%s, %s: from %d tokens on (%s)", way.name,
					cmp.Or(t.layout, "all other layouts"), t.tokens, t.from))
			}
		}
	}
	return lines
}
