package kernel

import (
	"testing"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// TestNative: if Native says that a layout is read as it is, Bind chooses a kernel of that layout and no memory of its
// own for the matrix; layouts that are repacked or left to the generic kernel are not native.
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

// TestDefaultLayoutsAreNotRepacked: on every instruction set of this architecture, whether this CPU has it or not, the
// layouts that a conversion chooses by itself are read as they are, for every alphabet, number of columns and group
// size. Plain Go unpacks every layout.
func TestDefaultLayoutsAreNotRepacked(t *testing.T) {
	defer func(s selection) { selected = s }(selected)
	for _, step := range ladder {
		if step.isa == Generic || step.arch != asm.Arch {
			continue
		}
		for _, features := range []feature{0, vbmi, gfni, vbmi | gfni} {
			selected = selection{isas: append(append([]ISA{step.isa}, step.contains...), Generic), features: features}
			for _, a := range pack.Alphabets() {
				s := pack.Spec{Name: "vnni4i", Alphabet: a.Name}
				switch a.Name {
				case pack.Int8.Name:
					s.Name = "vnni4"
				case pack.Int3.Name, pack.Int5.Name, pack.Int6.Name:
					s.Name = "vnni4p"
				}
				if columns, group, ok := alwaysNative(s); !ok {
					t.Errorf("%s, features %d: %s of %s is repacked (%d columns in groups of %d)", step.isa, features,
						s.Name, a.Name,
						columns, group)
				}
			}
		}
	}
}

// alwaysNative says whether weights of common shapes are read as they are, or a shape that is not.
func alwaysNative(s pack.Spec) (columns, group int, ok bool) {
	for _, columns := range []int{64, 576, 2560, 6912, 28672} {
		for _, group := range []int{0, 16, 32, 64, 128, 256} {
			if !Native(s, columns, group) {
				return columns, group, false
			}
		}
	}
	return 0, 0, true
}
