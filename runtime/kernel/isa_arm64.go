//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// detected lists what this CPU and operating system support.
func detected() (have []ISA, features feature) {
	if cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP {
		have = append(have, NEON)
	}
	return have, 0
}
