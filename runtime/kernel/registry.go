package kernel

import "slices"

//go:generate go run -C ../../_asm ./kernel

// kernels of this build.
var kernels []*Kernel

func init() { kernels = append(nativeKernels(), generic) }

// Kernels lists all kernels of this build, whether this CPU can run them or not.
func Kernels() []*Kernel { return slices.Clone(kernels) }
