package pack

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	for _, l := range everyLayout(t) {
		spec := l.Spec()
		again, err := Open(spec)
		if err != nil {
			t.Fatalf("%v: %v", spec, err)
		}
		if !reflect.DeepEqual(again.Spec(), spec) {
			t.Errorf("Open(%v) gives %v", spec, again.Spec())
		}
	}
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "vnni5"}, `layout "vnni5"; there are vnni4i, vnni4i-64`},
		{Spec{Name: "vnni4i", Version: 2}, "version 2; this program knows version 1"},
		{Spec{Name: "vnni4i", Alphabet: "int8"}, `holds no "int8" codes; it holds ternary, int2`},
		{Spec{Name: "vnni4i", Params: map[string]int{"bm": 32}}, `has no parameter "bm"; it has none`},
		{Spec{Name: "blocked", Params: map[string]int{"bk": 0}}, "bk = 0 must be a multiple of 8"},
		{Spec{Name: "blocked", Params: map[string]int{"bm": -1}}, "bm = -1"},
		{Spec{Name: "blocked", Params: map[string]int{"bk": 1 << 20}}, "in 8..65536"},
		{Spec{Name: "tl1", Params: map[string]int{"BM": 48}}, "BM = 48 must be a multiple of 32"},
		{Spec{Name: "tl2", Params: map[string]int{"BK": 32}}, "BK = 32 must be a multiple of 24"},
		{Spec{Name: "tmac2", Params: map[string]int{"kf": 12}}, "kf = 12 must be a multiple of 8"},
		{Spec{Name: "q4_0"}, "keeps scales inside its blocks"},
	} {
		if _, err := Open(c.spec); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%v): %v; want %q", c.spec, err, c.want)
		}
	}
	if _, err := OpenBlocks("vnni4i"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("vnni4i opened as an exchange format: %v", err)
	}
}

// TestSpecsAreValues changes a Spec that a layout gave away.
func TestSpecsAreValues(t *testing.T) {
	l, err := Open(Spec{Name: "blocked"})
	if err != nil {
		t.Fatal(err)
	}
	l.Spec().Params["bm"] = 1
	if got := l.Spec().Params["bm"]; got != 32 {
		t.Errorf("bm is %d after a change from outside", got)
	}
}

func TestSizes(t *testing.T) {
	for _, l := range everyLayout(t) {
		for _, s := range []Shape{{0, 4}, {4, 0}, {-1, 4}, {MaxDim + 1, 1}, {1, MaxDim + 1}} {
			if _, err := l.PackedSize(s); !errors.Is(err, ErrLimit) {
				t.Errorf("%s: PackedSize(%v): %v", label(l), s, err)
			}
		}
		s := Shape{5, 7}
		n, err := l.PackedSize(s)
		if err != nil {
			t.Fatal(err)
		}
		a := alphabetOf(t, l)
		if err := l.Pack(make([]byte, n), &Matrix{s, a, make([]int8, 34)}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Pack of too few codes: %v", label(l), err)
		}
		if err := l.Unpack(&Matrix{s, a, make([]int8, 36)}, make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Unpack to too many codes: %v", label(l), err)
		}
	}
}

// TestAlphabets packs codes of a smaller alphabet in a layout for a larger one, and refuses the opposite.
func TestAlphabets(t *testing.T) {
	wide, err := Open(Spec{Name: "vnni4i", Alphabet: "int2"})
	if err != nil {
		t.Fatal(err)
	}
	m := NewMatrix(Shape{3, 5}, Ternary)
	m.Codes[4] = -1
	src := packed(t, wide, m)
	if err := wide.Unpack(NewMatrix(m.Shape, Ternary), src); !errors.Is(err, ErrUnsupported) {
		t.Errorf("int2 codes unpacked as ternary: %v", err)
	}
	back := NewMatrix(m.Shape, Int2)
	if err := wide.Unpack(back, src); err != nil || !slices.Equal(back.Codes, m.Codes) {
		t.Errorf("ternary codes came back as %v, %v", back.Codes, err)
	}
	narrow, err := Open(Spec{Name: "vnni4i"})
	if err != nil {
		t.Fatal(err)
	}
	if err := narrow.Pack(make([]byte, len(src)), NewMatrix(m.Shape, Int2)); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "int2") {
		t.Errorf("int2 codes packed as ternary: %v", err)
	}
}

// TestPanels packs panel by panel and compares with the whole.
func TestPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	panels := 0
	for _, l := range everyLayout(t) {
		p, ok := l.(Paneled)
		if !ok {
			continue
		}
		panels++
		for _, s := range []Shape{{1, 33}, {2*p.PanelRows() + 3, 75}, {p.PanelRows(), 128}} {
			m := NewMatrix(s, alphabetOf(t, l))
			randomize(r, m.Codes, m.Alphabet)
			size, err := PanelSize(p, s.K)
			if err != nil {
				t.Fatal(err)
			}
			var joined []byte
			for row := 0; row < s.M; row += p.PanelRows() {
				rows := min(p.PanelRows(), s.M-row)
				part := &Matrix{Shape{rows, s.K}, m.Alphabet, m.Codes[row*s.K:][:rows*s.K]}
				if len(joined) != row/p.PanelRows()*size {
					t.Fatalf("%s: panel %d starts at byte %d", label(l), row/p.PanelRows(), len(joined))
				}
				joined = append(joined, packed(t, l, part)...)
			}
			if !bytes.Equal(joined, packed(t, l, m)) {
				t.Errorf("%s %v: panels packed alone differ from the whole", label(l), s)
			}
		}
	}
	if panels == 0 {
		t.Error("no layout has panels")
	}
}

// TestPresets opens the shipped block factors: each holds its shape as it is.
func TestPresets(t *testing.T) {
	for layout, shapes := range map[string][]Shape{"tl1": keys(tl1Presets), "tl2": keys(tl2Presets)} {
		for _, s := range shapes {
			params, ok := Preset(layout, s)
			if !ok {
				t.Fatalf("%s %v: no preset", layout, s)
			}
			l, err := Open(Spec{Name: layout, Params: params})
			if err != nil {
				t.Errorf("%s %v: %v", layout, s, err)
				continue
			}
			if native, err := Padded(l, s); err != nil || native != s {
				t.Errorf("%s %v is padded to %v, %v", layout, s, native, err)
			}
		}
	}
	if _, ok := Preset("tl1", Shape{1, 1}); ok {
		t.Error("a preset for a shape that nobody ships")
	}
	if _, ok := Preset("vnni4i", Shape{3200, 3200}); ok {
		t.Error("a preset for a layout without parameters")
	}
}

func keys[V any](m map[Shape]V) (all []Shape) {
	for s := range m {
		all = append(all, s)
	}
	return all
}
