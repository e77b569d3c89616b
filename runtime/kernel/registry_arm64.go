//go:build !purego

package kernel

func nativeKernels() []*Kernel { return neonKernels() }
