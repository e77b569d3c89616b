package offheap

import (
	"os"
	"slices"
	"testing"
)

// TestRenew: any part of a buffer keeps its contents, and so does what is around it.
func TestRenew(t *testing.T) {
	page := os.Getpagesize()
	b, err := New(5 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	for i := range b.Bytes {
		b.Bytes[i] = byte(i*31 + i>>13)
	}
	want := slices.Clone(b.Bytes)
	for _, r := range [][2]int{{0, len(want)}, {1, len(want) - 1}, {0, 0}, {5, page}, {page - 1, page + 1},
		{page, 2 * page}, {100, 3<<20 + 17}} {
		Renew(b.Bytes[r[0]:r[1]])
		if !slices.Equal(b.Bytes, want) {
			t.Fatalf("%v: the contents are others", r)
		}
	}
}
