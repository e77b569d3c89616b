//go:build unix

package offheap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func alloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", n, err)
	}
	huge(b)
	return b, nil
}

func free(b []byte) { unix.Munmap(b) }
