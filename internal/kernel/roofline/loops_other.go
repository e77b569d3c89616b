//go:build purego || !(amd64 || arm64)

package roofline

import "github.com/lowpack/lowpack/internal/kernel"

func stream(p []byte) { streamGeneric(p) }

// ways to read memory: there is one.
var ways = []way{{"one stream", stream}}

func integers(kernel.ISA) (run func(n int), products int) { return multiplyGeneric, 8 }

func floats(kernel.ISA) (run func(n int), products int) { return floatsGeneric, 8 }
