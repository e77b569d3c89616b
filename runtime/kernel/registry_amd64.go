//go:build !purego

package kernel

func nativeKernels() []*Kernel { return avx512Kernels() }
