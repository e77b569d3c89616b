//go:build purego || !amd64

package pack

var translates = false

func translateAVX2(_, _ *byte, _ int, _ *translation) bool { return false }

func unfold1AVX2(_ *int8, _, _ int, _ *byte, _, _ int, _ *translation) bool { return false }

func unfold2AVX2(_ *int8, _, _ int, _ *byte, _, _ int, _ *translation) bool { return false }

func unfold4AVX2(_ *int8, _, _ int, _ *byte, _, _ int, _ *translation) bool { return false }
