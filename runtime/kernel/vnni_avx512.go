//go:build amd64 && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// mostScaled bounds the columns of kernels that sum fields at their place in the byte. The largest sum is that of the
// highest field: 192·127 per column for two bits, 240·127 for four, less than 2³¹ for this many columns.
const mostScaled = 1 << 16

// avx512Kernels lists the kernels on 512-bit VPDPBUSD.
func avx512Kernels() []*Kernel {
	int2 := []string{pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}
	masks := func(layout string, alphabets []string, columns, lanes int, funcs []func(*tile), pairs ...func(*tile)) *Kernel {
		return vnni512(&Kernel{
			Layout: layout, Alphabets: alphabets, most: mostScaled, step: columns,
			About: "fields cut out by masks, 512-bit dot products",
		}, family{funcs: funcs, columns: columns, grouped: true, lanes: lanes, pairs: pairs})
	}
	return append(signs512(), []*Kernel{
		masks("vnni4i", []string{pack.Ternary.Name}, 8, 8, ternaryRows32512, ternaryPairs512...),
		masks("vnni4i", int2, 8, 8, fields2Rows32512, fields2Pairs512...),
		masks("vnni4i", []string{pack.Int1.Name}, 16, 4, fields1Rows32512),
		masks("vnni4i", []string{pack.Int4.Name}, 4, 16, fields4Rows32512),
		masks("vnni4i-64", []string{pack.Ternary.Name}, 4, 16, ternaryRows64512),
		masks("vnni4i-64", int2, 4, 16, fields2Rows64512),
		masks("vnni4i-64", []string{pack.Int1.Name}, 8, 8, fields1Rows64512),
		masks("vnni4i-64", []string{pack.Int4.Name}, 4, 32, fields4Rows64512),
		e2m1512("vnni4i", e2m1Rows32512),
		e2m1512("vnni4i-64", e2m1Rows64512),
		bytes512("vnni4", bytesRows32512),
		bytes512("vnni4-64", bytesRows64512),
		trits512Kernel(),
		rowDots512Kernel(),
		universal(AVX512VNNI),
	}...)
}

func e2m1512(layout string, funcs []func(*tile)) *Kernel {
	return vnni512(&Kernel{
		Layout: layout, Alphabets: []string{pack.E2M1.Name}, step: 4,
		About: "codes looked up by a byte shuffle, 512-bit dot products",
	}, family{funcs: funcs, columns: 4, grouped: true, lanes: 16})
}

func bytes512(layout string, funcs []func(*tile)) *Kernel {
	return vnni512(&Kernel{
		Layout: layout, Alphabets: []string{pack.Int8.Name}, step: 4,
		About: "512-bit dot products",
	}, family{funcs: funcs, columns: 4, grouped: true, lanes: 16})
}

func trits512Kernel() *Kernel {
	k := &Kernel{
		Layout: "vnni4t", Alphabets: []string{pack.Ternary.Name}, ISA: AVX512VNNI, needs: vbmi, most: mostScaled, step: 4,
		About: "digits looked up by byte permutations, 512-bit dot products",
	}
	k.bind = func(w *Weights) (product, error) {
		return newTiled(w, w.Layout.(pack.Paneled), w.packed, family{funcs: trits512, columns: 4, grouped: true}, operands{add: -1})
	}
	return k
}

// vnni512 completes a kernel whose operands are the digits of the layout.
func vnni512(k *Kernel, f family) *Kernel {
	k.ISA = AVX512VNNI
	k.bind = func(w *Weights) (product, error) {
		return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, digits[w.Layout.Spec().Alphabet])
	}
	return k
}
