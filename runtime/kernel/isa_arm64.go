//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// detected lists what this CPU and operating system support.
func detected() (have []ISA, features feature) {
	if !cpu.ARM64.HasASIMD {
		return nil, 0
	}
	have = append(have, NEON)
	if cpu.ARM64.HasASIMDDP {
		have = append(have, DotProd)
	}
	return have, 0
}
