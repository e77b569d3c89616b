package fence

import (
	"runtime/debug"
	"testing"
)

func TestFences(t *testing.T) {
	m := New(t, 5000)
	for _, n := range []int{0, 1, 3, 1024, 1250} {
		for _, hand := range []func(*Memory, int) []int32{Head[int32], Tail[int32]} {
			s := hand(m, n)
			if len(s) != n {
				t.Fatalf("a slice of %d has %d elements", n, len(s))
			}
			for i := range s {
				if s[i] != 0 {
					t.Fatalf("element %d is %d at first", i, s[i])
				}
				s[i] = -1
			}
			m.Check(t)
		}
	}
}

func TestAdjacentMemoryCannotBeTouched(t *testing.T) {
	if !protected {
		t.Skip("no page protection on this system")
	}
	m := New(t, 100)
	after := Tail[byte](m, 10)
	if !faults(func() { touch(&after[9], 1) }) {
		t.Error("the byte behind the last one can be read")
	}
	before := Head[byte](m, 10)
	if !faults(func() { touch(&before[0], -1) }) {
		t.Error("the byte in front of the first one can be read")
	}
}

func TestCheckSeesTheOtherSide(t *testing.T) {
	m := New(t, 100)
	tail := Tail[byte](m, 10)
	write(&tail[0], -1)
	inner := &recorder{TB: t}
	inner.run(func() { m.Check(inner) })
	if !inner.failed {
		t.Error("a byte written in front of the slice was not noticed")
	}
}

// faults reports whether f touches memory that it may not.
func faults(f func()) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	f()
	return false
}

// recorder is a test that only remembers that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }

func (r *recorder) run(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f()
}
