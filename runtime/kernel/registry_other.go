//go:build purego || !amd64

package kernel

func nativeKernels() []*Kernel { return nil }
