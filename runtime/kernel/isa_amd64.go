//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// detected lists what this CPU and operating system support.
func detected() (have []ISA, features feature) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 { // FMA and BMI2 came with AVX2; asking for them excludes emulators that lie
		return nil, 0
	}
	have = append(have, AVX2)
	if x.HasAVXVNNI {
		have = append(have, AVXVNNI)
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		have = append(have, AVX512VNNI)
	}
	if x.HasAVX512VBMI {
		features |= vbmi
	}
	if x.HasAVX512GFNI {
		features |= gfni
	}
	return have, features
}
