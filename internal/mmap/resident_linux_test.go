package mmap

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestResident: whoever releases what it has read keeps a piece resident, and not the file.
func TestResident(t *testing.T) {
	const size, piece = 32 << 20, 1 << 20
	path, view := mapped(t, make([]byte, size))
	p := make([]byte, piece)
	for i := 0; i < size; i += piece {
		copy(p, view[i:i+piece])
	}
	if all := resident(t, path); all < size*3/4 {
		t.Skipf("%d bytes resident after everything was read: nothing to measure here", all)
	}
	Release(view)
	for i := 0; i < size; i += piece {
		copy(p, view[i:i+piece])
		Release(view[i : i+piece])
	}
	if rest := resident(t, path); rest > piece {
		t.Errorf("%d bytes are resident", rest)
	}
}

// resident is how much of a mapped file is in the resident set.
func resident(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, of, ok := bytes.Cut(maps, []byte(path))
	if !ok {
		t.Fatalf("%s is not mapped", path)
	}
	_, rss, _ := strings.Cut(string(of), "Rss:")
	var kib int
	if _, err := fmt.Sscan(rss, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
