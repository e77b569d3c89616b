//go:build unix

package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory is page-aligned memory outside the Go heap, so that the collector neither scans nor counts gigabytes of
// weights.
type memory struct{ bytes []byte }

// alloc gets n zero bytes; n > 0.
func (m *memory) alloc(n int) error {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("%d bytes for unpacked weights: %w", n, err)
	}
	m.bytes = b
	return nil
}

func (m *memory) free() {
	if m.bytes != nil {
		unix.Munmap(m.bytes) // fails only for a range that was never mapped
		m.bytes = nil
	}
}
