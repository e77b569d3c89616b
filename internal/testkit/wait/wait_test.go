package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPoll waits for what happens late and for what never happens, on a clock of its own.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		since := func(d time.Duration) func() bool { return func() bool { return time.Since(start) >= d } }
		if !poll(start.Add(time.Hour), since(time.Minute)) {
			t.Error("did not wait for a minute")
		}
		if late := time.Since(start) - time.Minute; late > 50*time.Millisecond {
			t.Errorf("noticed %s late", late)
		}
		if poll(start.Add(time.Hour), since(2*time.Hour)) {
			t.Error("waited longer than it may")
		}
	})
}
