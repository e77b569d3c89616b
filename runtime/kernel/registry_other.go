//go:build purego || !(amd64 || arm64)

package kernel

func nativeKernels() []*Kernel { return nil }
