//go:build amd64 && !purego

package kernel

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// kernels256 lists the kernels on 256-bit registers, with and without VPDPBUSD.
func kernels256() []*Kernel {
	base3 := operands{add: -1, block: math.MaxInt16 / (2 * 2 * MaxActivation)} // digits of two columns per step
	bits := [2]family{
		nibbleFamily(bitsRows32256Funcs),
		nibbleFamily(bitsRows64256Funcs),
	}
	// Single bits are summed at their place, 8 at most: two columns per step in 16 bits, any number in 32.
	one := digits[pack.Int1.Name]
	one.block = math.MaxInt16 / (8 * 2 * MaxActivation)
	const mostOnes = math.MaxInt32 / (8 * MaxActivation)
	vnni := panelFuncs{
		isa:    AVXVNNI,
		one:    [2][]func(*tile){fields1Rows32VNNI256, fields1Rows64VNNI256},
		two:    [2][]func(*tile){fields2Rows32VNNI256, fields2Rows64VNNI256},
		four:   [2][]func(*tile){fields4Rows32VNNI256, fields4Rows64VNNI256},
		eight:  [2][]func(*tile){fields8Rows32VNNI256, fields8Rows64VNNI256},
		lookup: unsigned256, int1: one, mostOnes: mostOnes, int8: digits[pack.Int8.Name], bits: bits,
		trits: tritsVNNI256Funcs, base3: base3, grouped: true,
		batch: 20, about: "256-bit dot products",
	}
	avx2 := panelFuncs{
		isa:    AVX2,
		one:    [2][]func(*tile){fields1Rows32256, fields1Rows64256},
		two:    [2][]func(*tile){fields2Rows32256, fields2Rows64256},
		four:   [2][]func(*tile){fields4Rows32256, fields4Rows64256},
		eight:  [2][]func(*tile){fields8Rows32256, fields8Rows64256},
		lookup: unsigned256, int1: one, mostOnes: mostOnes, int8: operands{mul: 1}, bits: bits,
		trits: trits256Funcs, base3: base3, grouped: true,
		batch: 20, about: "products of two columns summed in 16 bits",
	}
	list := append(vnni.kernels(), avx2.kernels()...)
	return append(list, rowDots(AVXVNNI, rowDots256, vnni.batch), rowDots(AVX2, rowDots256, avx2.batch))
}

// unsigned256 looks weights up as what they exceed the smallest one by.
func unsigned256(values []int8, bits int) operands { return lookedUp(values, bits, slices.Min(values)) }
