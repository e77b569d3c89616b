// Package cpu limits the processor time of tests, which other load on the machine hardly changes, unlike wall time.
package cpu

import (
	"testing"
	"time"
)

// Within runs work and fails the test when the process has used more processor time than limit, which other tests of
// the package must not share: they do not run in parallel. Where the system does not tell, only the deadline of the
// test binary (go test -timeout) bounds it. It returns the time.
func Within(t testing.TB, limit time.Duration, what string, work func()) time.Duration {
	t.Helper()
	start := Time()
	work()
	took := Time() - start
	if took > limit {
		t.Errorf("%s: %v of the processor, want at most %v", what, took.Round(time.Microsecond), limit)
	}
	return took
}
