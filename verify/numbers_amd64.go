//go:build !purego

package verify

import "golang.org/x/sys/cpu"

//go:generate go run -C ../_asm ./verify

// looksUp says whether this processor looks 32 codes up at once. Tests change it; nothing else does.
var looksUp = cpu.X86.HasAVX2

// foursAVX2 makes n bytes, a positive multiple of 32, of the codes at a, b, c and d; place is by their four lowest bits.
//
//go:noescape
func foursAVX2(dst, a, b, c, d *byte, n int, place *[16]byte)
