//go:build linux || darwin

package fence

import (
	"os"
	"syscall"
	"testing"
)

const protected = true

// allocate maps whole pages with an inaccessible one on each side.
func allocate(t testing.TB, size int) ([]byte, error) {
	page := os.Getpagesize()
	inner := (size + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Errorf("unmap: %v", err)
		}
	})
	for _, fence := range [][]byte{all[:page], all[page+inner:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			return nil, err
		}
	}
	return all[page : page+inner : page+inner], nil
}
