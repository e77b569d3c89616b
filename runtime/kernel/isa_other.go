//go:build purego || !(amd64 || arm64)

package kernel

// detected: there is no assembly in this build.
func detected() (have []ISA, features feature) { return nil, 0 }
