package pack

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/long"
)

func packed(t testing.TB, l Layout, m *Matrix) []byte {
	t.Helper()
	n, err := l.PackedSize(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, n)
	if err := l.Pack(dst, m); err != nil {
		t.Fatal(err)
	}
	return dst
}

// everyLayout opens each layout of codes with each of its alphabets, and with unusual parameters where it has any.
func everyLayout(t testing.TB) []Layout {
	t.Helper()
	var all []Layout
	for _, info := range Layouts() {
		if info.Block != 0 {
			continue
		}
		for i, a := range info.Alphabets {
			choices := []map[string]int{nil}
			if i == 0 {
				choices = append(choices, unusual[info.Name]...)
			}
			for _, params := range choices {
				l, err := Open(Spec{Name: info.Name, Alphabet: a.Name, Params: params})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, l)
			}
		}
	}
	return all
}

var unusual = map[string][]map[string]int{
	"blocked": {{"bm": 1, "bk": 8}, {"bm": 7, "bk": 24}, {"bm": 48, "bk": 1000}},
	"tl1":     {{"BM": 32, "BK": 16, "bm": 32}, {"BM": 64, "BK": 4, "bm": 64}},
	"tl2":     {{"BM": 32, "BK": 24}, {"BM": 64, "BK": 48}, {"BM": 32, "BK": 600}},
	"tmac1":   {{"bm": 32, "kf": 8}},
	"tmac2":   {{"bm": 32, "kf": 8}, {"bm": 96, "kf": 16}},
	"tmac4":   {{"bm": 64, "kf": 8}},
}

func label(l Layout) string {
	s := l.Spec()
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Name, "/", s.Alphabet, "/", s.Params), "/"), "/map[]", "")
}

func alphabetOf(t testing.TB, l Layout) Alphabet {
	t.Helper()
	a, err := FindAlphabet(l.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shapes are M 1..70 by K 1..700: the corners, and n more by chance. LOWPACK_LONG=1 has every M with the corners of K
// and every K with the corners of M: rows and columns are padded apart.
func shapes(r *rand.Rand, n int) []Shape {
	var (
		all  []Shape
		rows = []int{1, 2, 8, 31, 32, 33, 63, 64, 65, 70}
		cols = []int{1, 3, 4, 5, 19, 20, 21, 128, 256, 480, 481, 500, 512, 513, 700}
	)
	if long.All {
		for i := range 70 * len(cols) {
			all = append(all, Shape{1 + i%70, cols[i/70]})
		}
		for i := range 700 * len(rows) {
			all = append(all, Shape{rows[i/700], 1 + i%700})
		}
		return all
	}
	for _, k := range cols {
		all = append(all, Shape{1 + r.IntN(70), k})
	}
	for _, m := range rows {
		all = append(all, Shape{m, 1 + r.IntN(700)})
	}
	for range n {
		all = append(all, Shape{1 + r.IntN(70), 1 + r.IntN(700)})
	}
	return all
}

func randomize(r *rand.Rand, codes []int8, a Alphabet) {
	for i := range codes {
		codes[i] = a.Values[r.IntN(len(a.Values))]
	}
}

// TestPackAndUnpack holds every layout to its promises: exact size, every byte written, nothing outside touched, the
// same bytes as by the address formula, the same codes back.
func TestPackAndUnpack(t *testing.T) {
	for _, l := range everyLayout(t) {
		t.Run(label(l), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			var (
				a     = alphabetOf(t, l)
				codes = fence.New(t, 70*700)
				bytes = fence.New(t, 1<<17)
			)
			n := 30
			if f := formulaOf(l); f == nil || f.fast == nil {
				n = 0 // slow, and the formula alone
			}
			for i, s := range shapes(r, n) {
				hand := fence.Tail[byte]
				handCodes := fence.Tail[int8]
				if i%2 == 1 {
					hand, handCodes = fence.Head[byte], fence.Head[int8]
				}
				m := &Matrix{s, a, handCodes(codes, s.M*s.K)}
				randomize(r, m.Codes, a)
				want := slices.Clone(m.Codes)
				src := checkPack(t, l, m, func(n int) []byte { return hand(bytes, n) })
				bytes.Check(t)
				codes.Check(t)
				src = append(hand(bytes, len(src))[:0], src...)
				m.Codes = handCodes(codes, s.M*s.K)
				if err := l.Unpack(m, src); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
				bytes.Check(t)
				codes.Check(t)
				if !slices.Equal(m.Codes, want) {
					t.Fatalf("%v: unpacked codes differ", s)
				}
				checkFast(t, l, m, src)
			}
		})
	}
}

func checkPack(t *testing.T, l Layout, m *Matrix, hand func(int) []byte) []byte {
	t.Helper()
	n, err := l.PackedSize(m.Shape)
	if err != nil {
		t.Fatalf("%v: %v", m.Shape, err)
	}
	before := slices.Clone(m.Codes)
	dst := hand(n)
	for i := range dst {
		dst[i] = 0xFF
	}
	if err := l.Pack(dst, m); err != nil {
		t.Fatalf("%v: %v", m.Shape, err)
	}
	if want := byFormula(t, l, m); want != nil && !bytes.Equal(dst, want) {
		t.Fatalf("%v: byte %d differs from the address formula", m.Shape, firstDifference(dst, want))
	}
	if !slices.Equal(m.Codes, before) {
		t.Fatalf("%v: Pack changed the codes", m.Shape)
	}
	for _, wrong := range []int{n - 1, n + 1} {
		if err := l.Pack(make([]byte, wrong), m); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v: Pack into %d bytes instead of %d: %v", m.Shape, wrong, n, err)
		}
	}
	return slices.Clone(dst)
}

// checkFast demands that the fast path is really taken: Pack and Unpack would silently work without it.
func checkFast(t *testing.T, l Layout, m *Matrix, packed []byte) {
	t.Helper()
	f := formulaOf(l)
	if f == nil || f.fast == nil {
		return
	}
	s, err := f.Padded(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	if !f.packFast(make([]byte, len(packed)), m, s) || !f.unpackFast(m, s, packed) {
		t.Fatalf("%v: the fast way refuses what the formula takes", m.Shape)
	}
}

// byFormula packs one weight at a time; nil for layouts that know no other way.
func byFormula(t *testing.T, l Layout, m *Matrix) []byte {
	t.Helper()
	f := formulaOf(l)
	if f == nil || f.fast == nil {
		return nil
	}
	s, err := f.Padded(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, f.size(s))
	f.write(dst, m, s)
	return dst
}

func formulaOf(l Layout) *formula {
	switch l := l.(type) {
	case *formula:
		return l
	case *paneled:
		return &l.formula
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestPaddingIsChecked changes the digit of one weight of the padding, for every layout that has any.
func TestPaddingIsChecked(t *testing.T) {
	for _, l := range everyLayout(t) {
		f := formulaOf(l)
		if f == nil {
			continue
		}
		t.Run(label(l), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			a := alphabetOf(t, l)
			for _, s := range shapes(r, 0)[10:22] {
				native, err := f.Padded(s)
				if err != nil {
					t.Fatal(err)
				}
				if native == s {
					continue
				}
				m := NewMatrix(s, a)
				randomize(r, m.Codes, a)
				src := packed(t, l, m)
				for range 4 {
					row, col := r.IntN(native.M), s.K+r.IntN(max(native.K-s.K, 1))
					if native.K == s.K || r.IntN(2) == 0 && native.M > s.M {
						row, col = s.M+r.IntN(native.M-s.M), r.IntN(native.K)
					}
					dirty := slices.Clone(src)
					f.change(dirty, native, row, col)
					if err := l.Unpack(NewMatrix(s, a), dirty); !errors.Is(err, ErrCorrupt) {
						t.Fatalf("%v: dirty padding at row %d, column %d: %v", s, row, col, err)
					}
				}
			}
		})
	}
}

// change changes the digit of weight (row, col) in packed bytes, and nothing else.
func (f *formula) change(packed []byte, native Shape, row, col int) {
	if f.plane != nil {
		p := f.plane(native, row, col, len(f.planes)-1)
		packed[p.At] ^= 1 << p.Bit
		return
	}
	p := f.at(native, row, col)
	sum, by := int(f.opened()[packed[p.At]]), p.Unit<<p.Bit
	if f.get(packed, f.opened(), native, row, col) > 0 {
		by = -by
	}
	packed[p.At] = uint8(sum + by)
	if f.seal != nil {
		packed[p.At] = f.seal[packed[p.At]]
	}
}

// TestIllegalCodesAreRefused puts each value that is not in the alphabet at a place of its own.
func TestIllegalCodesAreRefused(t *testing.T) {
	for _, l := range everyLayout(t) {
		a := alphabetOf(t, l)
		legal := a.legal()
		m := NewMatrix(Shape{37, 83}, a)
		r := rand.New(rand.NewPCG(5, 6))
		randomize(r, m.Codes, a)
		n, err := l.PackedSize(m.Shape)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, n)
		for v := range 256 {
			if legal[v] {
				continue
			}
			at := r.IntN(len(m.Codes))
			keep := m.Codes[at]
			m.Codes[at] = int8(uint8(v))
			err := l.Pack(dst, m)
			where := fmt.Sprintf("code %d at row %d, column %d", int8(uint8(v)), at/m.K, at%m.K)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), where) {
				t.Fatalf("%s: %s: %v", label(l), where, err)
			}
			m.Codes[at] = keep
		}
	}
}

// TestAnyBitFlip flips bits of packed matrices: the result is refused, or packs to the flipped bytes.
func TestAnyBitFlip(t *testing.T) {
	for _, l := range everyLayout(t) {
		t.Run(label(l), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 8))
			a := alphabetOf(t, l)
			for _, s := range []Shape{{3, 45}, {33, 21}} {
				m := NewMatrix(s, a)
				randomize(r, m.Codes, a)
				src := packed(t, l, m)
				step := max(1, 8*len(src)/100)
				for bit := r.IntN(step); bit < 8*len(src); bit += 1 + r.IntN(2*step) {
					src[bit/8] ^= 1 << (bit % 8)
					checkUnpackAny(t, l, s, src)
					src[bit/8] ^= 1 << (bit % 8)
				}
			}
		})
	}
}

// TestAnyByte tries all values of a few bytes, in matrices without padding.
func TestAnyByte(t *testing.T) {
	for _, l := range everyLayout(t) {
		s, err := Padded(l, Shape{1, 1})
		if err != nil {
			t.Fatal(err)
		}
		if s.M*s.K > 10_000 {
			continue
		}
		src := packed(t, l, zeroLike(s, alphabetOf(t, l)))
		for _, at := range []int{0, len(src) - 1} {
			keep := src[at]
			for b := range 256 {
				src[at] = byte(b)
				checkUnpackAny(t, l, s, src)
			}
			src[at] = keep
		}
	}
}

// zeroLike is a matrix of zeros, or of the lowest value where an alphabet has no zero.
func zeroLike(s Shape, a Alphabet) *Matrix {
	m := NewMatrix(s, a)
	if !a.legal()[0] {
		for i := range m.Codes {
			m.Codes[i] = a.Values[0]
		}
	}
	return m
}

// checkUnpackAny demands of any bytes that they are refused or are what Pack writes for the codes in them.
func checkUnpackAny(t *testing.T, l Layout, s Shape, src []byte) {
	t.Helper()
	m := NewMatrix(s, alphabetOf(t, l))
	if err := l.Unpack(m, src); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s %v: %v", label(l), s, err)
		}
		return
	}
	if err := m.Check(); err != nil {
		t.Fatalf("%s %v: Unpack accepted %v", label(l), s, err)
	}
	if again := packed(t, l, m); !bytes.Equal(again, src) {
		t.Fatalf("%s %v: the codes pack to other bytes, first at %d", label(l), s, firstDifference(again, src))
	}
}

func alphabetOfBlocks(t testing.TB, b Blocks) Alphabet {
	t.Helper()
	a, err := FindAlphabet(b.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
