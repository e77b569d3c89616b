//go:build !purego

package pack

import "golang.org/x/sys/cpu"

//go:generate go run -C ../_asm ./pack

// translates says whether this processor can. Tests change it; nothing else does.
var translates = cpu.X86.HasAVX2

// translateAVX2 maps n bytes, a positive multiple of 32, and reports whether something stands for each.
//
//go:noescape
func translateAVX2(dst, src *byte, n int, t *translation) bool

// unfold1AVX2 decodes n times 32 columns of the rows that share four lanes. Rows of adjacent lanes lie k bytes from
// each other, those of adjacent fields apart; words of adjacent groups of columns lie stride bytes from each other.
//
//go:noescape
func unfold1AVX2(dst *int8, k, apart int, src *byte, stride, n int, t *translation) bool

//go:noescape
func unfold2AVX2(dst *int8, k, apart int, src *byte, stride, n int, t *translation) bool

//go:noescape
func unfold4AVX2(dst *int8, k, apart int, src *byte, stride, n int, t *translation) bool
