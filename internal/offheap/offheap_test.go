package offheap

import (
	"bytes"
	"testing"
)

func TestBuffer(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 5 << 20} {
		b, err := New(n)
		if err != nil || len(b.Bytes) != n || len(bytes.Trim(b.Bytes, "\x00")) != 0 {
			t.Fatalf("%d bytes: %d, %v", n, len(b.Bytes), err)
		}
		for i := range b.Bytes {
			b.Bytes[i] = byte(i)
		}
		b.Free()
		b.Free()
		if b.Bytes != nil {
			t.Error("freed memory can still be reached")
		}
	}
	if _, err := New(1 << 62); err == nil {
		t.Error("there is more memory than addresses")
	}
}
