package packed

import (
	"sync"

	"github.com/lowpack/lowpack/internal/mmap"
)

// cache makes the page cache hold a file that is being written in pages of mmap.HugePage. A write allocates pages of
// its own size, and the file keeps them until it is read from the disk again; but products with weights in small pages,
// whose TLB misses add up, are up to a third slower (docs/notes/benchmarks.md). So each range of that size is in the
// cache, as one page of zeros, before anything of it is written. It changes no byte: if the system has no such pages,
// or none left, writes are unaffected.
type cache struct {
	file Output

	mu   sync.Mutex
	held []bool // by range
}

func newCache(file Output, size int64) *cache {
	c := &cache{file: file}
	if size >= mmap.HugePage && mmap.Huge(file) {
		c.held = make([]bool, size/mmap.HugePage) // an incomplete range at the end is left alone
	}
	return c
}

// prepare prepares for a write of n bytes at off. Nobody writes to a range before it is held.
func (c *cache) prepare(off int64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := off / mmap.HugePage; i*mmap.HugePage < off+int64(n) && i < int64(len(c.held)); i++ {
		if c.held[i] {
			continue
		}
		if mmap.Populate(c.file, i*mmap.HugePage) != nil {
			c.held = nil
			return
		}
		c.held[i] = true
	}
}
