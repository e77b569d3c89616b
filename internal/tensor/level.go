package tensor

import (
	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/internal/kernel"
)

// level is the instruction set in use. Tests change it; nothing else does.
var level = levels()[0]

type isa int

const (
	levelGeneric isa = iota
	levelAVX2
	levelAVX512
	levelNEON
	isas = iota
)

// levels lists the instruction sets that this process may use, as chosen by package kernel, best first.
func levels() (list []isa) {
	if kernel.Have(kernel.AVX512VNNI) {
		list = append(list, levelAVX512)
	}
	if kernel.Have(kernel.AVX2) && cpu.X86.HasF16C {
		list = append(list, levelAVX2)
	}
	if kernel.Have(kernel.DotProd) {
		list = append(list, levelNEON)
	}
	return append(list, levelGeneric)
}
