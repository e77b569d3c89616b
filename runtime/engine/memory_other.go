//go:build !linux

package engine

// availableMemory is unknown on this system.
func availableMemory() int { return unknownMemory }
