package mmap

import "golang.org/x/sys/unix"

// ReadHuge makes page faults in b read the file into the page cache in pages of HugePage bytes. Without it they read as
// much as the disk's read-ahead, often 128 KiB, in pages of 4 KiB (Linux, mm/filemap.c, do_sync_mmap_readahead). It has
// no effect on cached pages and on file systems without huge pages.
func ReadHuge(b []byte) {
	if len(b) > 0 {
		unix.Madvise(pages(b), unix.MADV_HUGEPAGE)
	}
}

// populate reads pages of a mapped file into the page cache and maps them (Linux 5.14). A page that cannot be read is
// an error, and no signal. MADV_WILLNEED would fill the page cache with small pages.
func populate(b []byte) error { return unix.Madvise(b, unix.MADV_POPULATE_READ) }

// Huge reports whether Populate helps for a file: on ext4 (since Linux 6.16) and XFS. On other file systems it would
// only cost time or network requests.
func Huge(f interface{ Fd() uintptr }) bool {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &s)
	return err == nil && (s.Type == unix.EXT4_SUPER_MAGIC || s.Type == unix.XFS_SUPER_MAGIC)
}

// Populate reads HugePage bytes of a file at off, a multiple of HugePage, into the page cache, as ReadHuge does. Holes
// are zeros and cause no disk access.
func Populate(f interface{ Fd() uintptr }, off int64) error {
	b, err := unix.Mmap(int(f.Fd()), off, HugePage, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	ReadHuge(b)
	unix.Madvise(b, unix.MADV_RANDOM) // no read-ahead beyond it
	return unix.Madvise(b, unix.MADV_POPULATE_READ)
}
