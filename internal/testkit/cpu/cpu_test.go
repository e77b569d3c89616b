package cpu

import (
	"strings"
	"testing"
	"time"
)

// notes records the messages of a test.
type notes struct {
	testing.TB
	errors []string
}

func (n *notes) Helper()                   {}
func (n *notes) Errorf(f string, _ ...any) { n.errors = append(n.errors, f) }

// TestWithin: work that takes longer is reported, work that waits is not.
func TestWithin(t *testing.T) {
	if Time() == 0 {
		t.Skip("this system does not tell")
	}
	n := &notes{TB: t}
	work := func() {
		for start := Time(); Time()-start < 2*time.Millisecond; {
		}
	}
	if took := Within(n, time.Millisecond, "work", work); took < 2*time.Millisecond || len(n.errors) != 1 ||
		!strings.Contains(n.errors[0], "of the processor") {
		t.Errorf("%v, %q", took, n.errors)
	}
	if Within(n, time.Minute, "work", work); len(n.errors) != 1 {
		t.Errorf("%q", n.errors)
	}
}
