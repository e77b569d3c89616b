package kernel

import (
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestNative: where Native says that a layout is read as it is, Bind takes a kernel of that layout and no memory of its own
// for the matrix; every layout that is repacked or left to the generic kernel is none.
func TestNative(t *testing.T) {
	s := pack.Shape{M: 64, K: 768}
	native, others := 0, 0
	for _, info := range pack.Layouts() {
		l, err := pack.Open(pack.Spec{Name: info.Name})
		if err != nil {
			continue // an exchange format
		}
		a, err := pack.FindAlphabet(l.Spec().Alphabet)
		if err != nil {
			t.Fatal(err)
		}
		size, err := l.PackedSize(s)
		if err != nil {
			continue // not of that shape
		}
		m, packed := pack.NewMatrix(s, a), make([]byte, size)
		for i := range m.Codes {
			m.Codes[i] = a.Values[i%len(a.Values)]
		}
		if err := l.Pack(packed, m); err != nil {
			t.Fatal(err)
		}
		w, err := Bind(l, s, packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := Native(l.Spec(), s.K, 0)
		copied := w.own != nil && len(w.own.Bytes) >= size
		if want := w.Kernel.Layout == info.Name && !copied; got != want {
			t.Errorf("%s: native %v, but Bind takes %v, copied: %v", info.Name, got, w.Kernel, copied)
		}
		if got {
			native++
		} else {
			others++
		}
		w.Close()
	}
	if others == 0 || native == 0 && Best() != Generic {
		t.Errorf("%d layouts are native, %d are not", native, others)
	}
}
