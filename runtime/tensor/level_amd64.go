//go:build !purego

package tensor

import (
	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/runtime/kernel"
)

// levels lists what this process may use, by the one choice that kernel makes, the best first.
func levels() (list []isa) {
	if kernel.Have(kernel.AVX512VNNI) {
		list = append(list, levelAVX512)
	}
	if kernel.Have(kernel.AVX2) && cpu.X86.HasF16C {
		list = append(list, levelAVX2)
	}
	return append(list, levelGeneric)
}
