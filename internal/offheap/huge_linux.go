package offheap

import "golang.org/x/sys/unix"

// huge asks for large pages, which save a core from looking addresses up and its prefetchers from stopping at the end
// of a page. Where there are none, small ones serve.
func huge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }

// Drop gives pages of a buffer back to the system. What they hold is lost.
func Drop(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }
