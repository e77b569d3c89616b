package kernel

import (
	"cmp"
	"slices"
)

//go:generate go run -C ../../_asm ./kernel

// kernels in order of preference: those of one layout before those of every layout, better instruction sets first.
var kernels []*Kernel

func init() { kernels = sorted(append(nativeKernels(), generic)) }

func sorted(list []*Kernel) []*Kernel {
	rank := func(k *Kernel) int {
		for i, step := range ladder {
			if step.isa == k.ISA {
				return i
			}
		}
		panic("kernel: unknown instruction set " + k.ISA)
	}
	slices.SortStableFunc(list, func(a, b *Kernel) int {
		if (a.Layout == "*") != (b.Layout == "*") {
			if a.Layout == "*" {
				return 1
			}
			return -1
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return list
}

// Kernels lists all kernels of this build, whether this CPU can run them or not, in order of preference.
func Kernels() []*Kernel { return slices.Clone(kernels) }
