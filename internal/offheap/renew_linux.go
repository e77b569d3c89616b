package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is what the system gives a whole page for, if it has one.
const hugePage = 2 << 20

// Renew gives the whole pages of b, a part of a buffer, new memory with the same contents: the calling thread writes
// them first, so they come from the NUMA node that it runs on. Nobody else may use b meanwhile.
func Renew(b []byte) {
	b = wholePages(b)
	held := make([]byte, min(len(b), hugePage))
	for len(b) > 0 {
		at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % hugePage)
		part := b[:min(len(b), hugePage-at)]
		copy(held, part)
		if unix.Madvise(part, unix.MADV_DONTNEED) == nil {
			copy(part, held)
		}
		b = b[len(part):]
	}
}

// wholePages returns the part of b without pages that it shares with others.
func wholePages(b []byte) []byte {
	page := os.Getpagesize()
	before := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if before >= len(b) {
		return nil
	}
	b = b[before:]
	return b[:len(b)&^(page-1)]
}
