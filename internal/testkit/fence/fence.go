// Package fence allocates memory that ends at an inaccessible page, for tests of code that could run past the end of a
// slice. It is a test helper.
//
// A byte too far stops the test at the instruction that touched it. The other side of the slice, up to the other fence,
// holds canaries: Check finds writes there. Where the system offers no page protection there are canaries on both
// sides.
package fence

import (
	"testing"
	"unsafe"
)

const (
	canary = 0xC5
	margin = 4096 // room for canaries on both sides where there is no page protection
)

// Number is what slices are made of.
type Number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Memory is a region between two fences. It holds one slice at a time.
type Memory struct {
	region   []byte // all that may be touched: whole pages between the fences
	lo, hi   int    // the part of it that slices may lie in
	from, to int    // the slice that was handed out last
}

// New maps a region that can hold slices of up to size bytes. It is unmapped at the end of the test.
func New(t testing.TB, size int) *Memory {
	t.Helper()
	region, err := allocate(t, max(size, 1))
	if err != nil {
		t.Fatalf("fenced memory of %d bytes: %v", size, err)
	}
	m := &Memory{region: region, hi: len(region)}
	if !protected {
		m.lo, m.hi = margin, len(region)-margin
	}
	m.hand(m.lo, m.lo)
	return m
}

// Tail returns a slice of n zeros whose last element touches the fence behind it.
func Tail[T Number](m *Memory, n int) []T {
	return slice[T](m, m.hi-n*width[T](), n)
}

// Head returns a slice of n zeros whose first element touches the fence in front of it.
func Head[T Number](m *Memory, n int) []T {
	return slice[T](m, m.lo, n)
}

// Check reports bytes outside the slice handed out last that have changed.
func (m *Memory) Check(t testing.TB) {
	t.Helper()
	for i, b := range m.region {
		if b != canary && (i < m.from || i >= m.to) {
			t.Fatalf("byte %d relative to a slice of %d bytes was overwritten with %#02x", i-m.from, m.to-m.from, b)
		}
	}
}

func (m *Memory) hand(from, to int) {
	for i := range m.region {
		m.region[i] = canary
	}
	clear(m.region[from:to])
	m.from, m.to = from, to
}

func slice[T Number](m *Memory, from, n int) []T {
	m.hand(from, from+n*width[T]())
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m.region[from])), n)
}

func width[T Number]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
