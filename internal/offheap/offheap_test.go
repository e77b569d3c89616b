package offheap

import (
	"bytes"
	"testing"
	"unsafe"
)

// TestArena: parts do not touch each other, begin aligned and zero, and go back with the last of their mapping.
func TestArena(t *testing.T) {
	var a Arena
	var parts []*Part
	for i, n := range []int{1, 100, 1 << 20, mappingSize - 5<<19, 3 << 20} {
		p, err := a.New(n)
		if err != nil || len(p.Bytes) != n || cap(p.Bytes) != n || uintptr(unsafe.Pointer(&p.Bytes[0]))%partAlign != 0 {
			t.Fatalf("%d bytes: %d, %v", n, len(p.Bytes), err)
		}
		if p.Bytes[0] != 0 || p.Bytes[n-1] != 0 {
			t.Errorf("%d bytes are not zero", n)
		}
		p.Bytes[0], p.Bytes[n-1] = byte(i+1), byte(i+1)
		parts = append(parts, p)
	}
	if parts[3].from != parts[0].from || parts[4].from == parts[0].from {
		t.Error("a mapping holds too little or too much")
	}
	for i, p := range parts {
		if p.Bytes[0] != byte(i+1) || p.Bytes[len(p.Bytes)-1] != byte(i+1) {
			t.Errorf("part %d was written by another", i)
		}
		from := p.from
		p.Free()
		p.Free()
		if gone := from.Bytes == nil; gone != (i >= 3) {
			t.Errorf("part %d freed: its mapping is gone: %v", i, gone)
		}
	}
	if a.last != nil {
		t.Error("the arena keeps a mapping without parts")
	}
	if _, err := a.New(1 << 62); err == nil {
		t.Error("there is more memory than addresses")
	}
}

// TestArenaAgain: what was little is handed out again, and is zero again.
func TestArenaAgain(t *testing.T) {
	var a Arena
	for range 3 {
		p, err := a.New(100)
		if err != nil {
			t.Fatal(err)
		}
		q, err := a.New(keep - 200)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{p.Bytes, q.Bytes} {
			if len(bytes.Trim(b, "\x00")) != 0 {
				t.Error("not zero")
			}
			b[0], b[len(b)-1] = 1, 1
		}
		if &p.Bytes[0] != &a.last.Bytes[0] {
			t.Error("a part does not begin the mapping")
		}
		p.Free()
		q.Free()
	}
}

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
