//go:build !purego && (amd64 || arm64)

package kernel

// pause tells the core that this is a loop that waits.
func pause()
