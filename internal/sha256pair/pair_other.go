//go:build purego || !amd64

package sha256pair

var interleaves = false

func blocks(_ *state, _ *byte, _ *state, _ *byte, _ int) {}
