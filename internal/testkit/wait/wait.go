// Package wait lets a test wait for what happens on another goroutine or in another process, for as long as the test
// may run: how soon it happens depends on the machine and on its other load.
package wait

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

const (
	patience = 10 * time.Minute // of a test without a deadline
	reserve  = 5 * time.Second  // before the deadline, to print what was missing
)

// For returns when done reports true. It asks every few milliseconds until the deadline of the test binary (go test
// -timeout) is near; then it fails the test and names what did not happen.
func For(t testing.TB, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			end = deadline.Add(-reserve)
		}
	}
	if !poll(end, done) {
		t.Fatalf("waited in vain: %s", what)
	}
}

// Goroutines returns when there are no more goroutines than most: those that have ended may take a moment to go.
func Goroutines(t testing.TB, most int) {
	t.Helper()
	For(t, fmt.Sprintf("no more than %d goroutines", most), func() bool { return runtime.NumGoroutine() <= most })
}

// poll asks until done reports true or the time is up.
func poll(end time.Time, done func() bool) bool {
	for pause := time.Millisecond; !done(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
