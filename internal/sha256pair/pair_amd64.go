//go:build !purego

package sha256pair

import "golang.org/x/sys/cpu"

//go:generate go run -C ../../_asm ./sha256pair

// interleaves says whether this processor can. Tests change it; nothing else does.
var interleaves = cpu.X86.HasAVX && hasSHA()

// hasSHA asks for the SHA extensions, of a processor that has AVX and with it leaf 7 of CPUID.
func hasSHA() bool

// blocks computes n blocks of each message, n > 0.
//
//go:noescape
func blocks(a *state, p *byte, b *state, q *byte, n int)
