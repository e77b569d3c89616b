//go:build purego || !(amd64 || arm64)

package ceiling

import "github.com/lowpack/lowpack/runtime/kernel"

func stream(p []byte) { streamGeneric(p) }

func multiply(_ kernel.ISA, n int) { multiplyGeneric(n) }

// perTurn is the number of products of a turn of the loop.
func perTurn(kernel.ISA) int { return 8 }
