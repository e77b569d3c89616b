//go:build !purego

package kernel

func nativeKernels() []*Kernel { return append(avx512Kernels(), kernels256()...) }
