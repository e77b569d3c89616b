package mmap

import "golang.org/x/sys/unix"

// ReadHuge makes accesses to the beginning of a map read the file into the page cache in pages of HugePage. Without it
// they read as much as the read-ahead of the disk, often 128 KiB, in pages of 4 KiB (Linux, mm/filemap.c,
// do_sync_mmap_readahead). File systems that have no such pages, and pages that are in the cache, stay as they are.
func ReadHuge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }

// Huge reports whether Populate is of use for a file: it is on ext4 (since Linux 6.16) and XFS. Elsewhere it would take
// time, or ask a server, for nothing.
func Huge(f interface{ Fd() uintptr }) bool {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &s)
	return err == nil && (s.Type == unix.EXT4_SUPER_MAGIC || s.Type == unix.XFS_SUPER_MAGIC)
}

// Populate reads HugePage bytes of a file, from a multiple of that on, into the page cache, as ReadHuge does. What was
// never written are zeros, for which no disk is asked.
func Populate(f interface{ Fd() uintptr }, off int64) error {
	b, err := unix.Mmap(int(f.Fd()), off, HugePage, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	ReadHuge(b)
	unix.Madvise(b, unix.MADV_RANDOM) // no page more than that
	return unix.Madvise(b, unix.MADV_POPULATE_READ)
}
