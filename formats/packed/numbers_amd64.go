//go:build !purego

package packed

import "golang.org/x/sys/cpu"

//go:generate go run -C ../../_asm ./packed

// subtracts reports whether this processor numbers 32 codes at once. Only tests change it.
var subtracts = cpu.X86.HasAVX2

// quartersAVX2 makes n bytes, a positive multiple of 32, of the codes at a, b, c and d.
//
//go:noescape
func quartersAVX2(dst, a, b, c, d *byte, n int, lowest byte, shift int)
