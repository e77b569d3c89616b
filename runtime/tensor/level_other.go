//go:build purego || !(amd64 || arm64)

package tensor

func levels() []isa { return []isa{levelGeneric} }
