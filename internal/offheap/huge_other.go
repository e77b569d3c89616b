//go:build unix && !linux

package offheap

// huge does nothing: other systems do not ask.
func huge([]byte) {}

// Drop does nothing.
func Drop([]byte) {}
