//go:build purego || !amd64

package packed

var subtracts = false

func quartersAVX2(_, _, _, _, _ *byte, _ int, _ byte, _ int) {}
