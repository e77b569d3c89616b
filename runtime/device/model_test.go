package device

import (
	"bytes"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/pack"
)

// TestStoredPlanes: codes of 3, 5 and 6 bits reach a device as int8, in the order that its kernels read.
func TestStoredPlanes(t *testing.T) {
	r := seed.Rand(t)
	packedIn := func(s pack.Spec, m *pack.Matrix) (pack.Layout, []byte) {
		l, err := pack.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		size, err := l.PackedSize(m.Shape)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		if err := l.Pack(data, m); err != nil {
			t.Fatal(err)
		}
		return l, data
	}
	for _, a := range []pack.Alphabet{pack.Int3, pack.Int5, pack.Int6} {
		for _, s := range []pack.Shape{{M: 33, K: 70}, {M: 64, K: 128}, {M: 100, K: 9}} {
			m := pack.NewMatrix(s, a)
			for i := range m.Codes {
				m.Codes[i] = a.Values[r.IntN(len(a.Values))]
			}
			l, data := packedIn(pack.Spec{Name: "vnni4p", Alphabet: a.Name}, m)
			_, want := packedIn(pack.Spec{Name: "vnni4-64", Alphabet: pack.Int8.Name}, m)
			got, err := (&CodeMatrix{Layout: l, Shape: s, Data: data}).stored()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %v: %d bytes, %d expected, %v", a.Name, s, len(got), len(want), err)
			}
		}
	}
}

// TestKernelSizes: kernels have buffers and constants, and what is not a kernel has none.
func TestKernelSizes(t *testing.T) {
	for _, k := range Kernels() {
		if base, c := k.Of(); k.Buffers() == 0 || k.Constants() == 0 || base.With(c) != k {
			t.Errorf("%s: %d buffers, %d constants", k, k.Buffers(), k.Constants())
		}
	}
	for _, k := range []Kernel{"", "new", "codes_f16", "heads_f32", "heads_f16_f16"} {
		if k.Buffers() != 0 || k.Constants() != 0 {
			t.Errorf("%q: %d buffers, %d constants", k, k.Buffers(), k.Constants())
		}
	}
}

// TestSumsOf: sums are made once for an order of columns and a size of groups, for as many as the widest matrix has.
func TestSumsOf(t *testing.T) {
	l := &linearSlots{}
	for _, c := range []struct {
		of   sumOf
		want int
	}{
		{sumOf{order: 0, group: 32, width: 16}, 0},
		{sumOf{order: 1, group: 32, width: 16}, 1},
		{sumOf{order: 0, group: 64, width: 16}, 2},
		{sumOf{order: 0, group: 32, width: 48}, 0},
	} {
		if got := l.sumOf(c.of); got != c.want {
			t.Errorf("%+v: %d, want %d", c.of, got, c.want)
		}
	}
	if l.sums[0].width != 48 || l.sums[1].width != 16 {
		t.Errorf("widths of %+v", l.sums)
	}
}
