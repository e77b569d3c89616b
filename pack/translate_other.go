//go:build purego || !amd64

package pack

var translates = false

func translateAVX2(_, _ *byte, _ int, _ *translation) bool { return false }
