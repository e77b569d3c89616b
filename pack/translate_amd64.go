//go:build !purego

package pack

import "golang.org/x/sys/cpu"

//go:generate go run -C ../_asm ./pack

// translates says whether this processor can. Tests change it; nothing else does.
var translates = cpu.X86.HasAVX2

// translateAVX2 maps n bytes, a positive multiple of 32, and reports whether something stands for each.
//
//go:noescape
func translateAVX2(dst, src *byte, n int, t *translation) bool
