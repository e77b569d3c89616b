package packed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/internal/mmap"
)

// TestLargePages: a file that is written in small pieces, tensors interleaved, is in large pages of the page cache, if
// one that is written at once is.
func TestLargePages(t *testing.T) {
	const size, piece = 5*mmap.HugePage + 1000, 40_000
	dir := t.TempDir()
	data, path := bytes.Repeat([]byte("lowpack!"), size/8), filepath.Join(dir, "once")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := largePages(t, path); n < 5 {
		t.Skipf("%d of 5 pages of a file that is written at once are large", n)
	}
	c := Contents{}
	c.Manifest.Tool, c.Manifest.Recipe = "lowpack test", Recipe{Quant: "auto", Layout: "vnni4i", Golden: "none"}
	for _, name := range []string{"a", "b", "c"} {
		c.Manifest.Plain = append(c.Manifest.Plain, Plain{Name: name, DType: "U8", Shape: []int{size}})
	}
	path = filepath.Join(dir, "pieces")
	w, err := Create(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	var all sync.WaitGroup
	for _, p := range c.Manifest.Plain {
		all.Go(func() {
			s, err := w.Stream(p.Name)
			for off := 0; err == nil && off < size; off += piece {
				_, err = s.Write(data[off:min(off+piece, size)])
			}
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, p := range c.Manifest.Plain {
		if got, err := w.Tensor(p.Name); err != nil || !bytes.Equal(got.Data, data) {
			t.Errorf("%s: other bytes, %v", p.Name, err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := largePages(t, path); n < 12 { // of 15; the allocator may miss one or two
		t.Errorf("%d pages are large", n)
	}
}

// largePages is the number of huge pages with which a file is mapped.
func largePages(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	view, err := mmap.Map(f, path, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer mmap.Unmap(view)
	sum := 0
	for i := 0; i < len(view); i += os.Getpagesize() {
		sum += int(view[i])
	}
	var kib int
	if _, err := fmt.Sscan(mapping(t, path, "FilePmdMapped:"), &kib); err != nil || sum == 0 {
		t.Skip("how files are mapped is not told")
	}
	return kib << 10 / mmap.HugePage
}

// mapping returns what Linux reports about the first map of a file, from a field on.
func mapping(t *testing.T, path, field string) string {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, of, _ := strings.Cut(string(smaps), path+"\n")
	_, of, _ = strings.Cut(of, field)
	return of
}

// TestReadHuge: packed tensors are read in large pages.
func TestReadHuge(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip(err)
	}
	c, data, codes := sample(t)
	path := filepath.Join(t.TempDir(), "file")
	writeSample(t, path, c, data, codes)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, _, _ := strings.Cut(mapping(t, path, "VmFlags:"), "\n")
	if flags != "" && !slices.Contains(strings.Fields(flags), "hg") {
		t.Errorf("flags of the map: %q", flags)
	}
}
