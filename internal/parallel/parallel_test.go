package parallel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestDo(t *testing.T) {
	for _, c := range [][3]int{{0, 10, 3}, {1, 10, 3}, {4, 9, 3}, {7, 1, 5}, {3, 0, 5}} {
		var seen [16]atomic.Int32
		err := Do(context.Background(), c[0], c[1], c[2], func(from, to int) error {
			if from%c[2] != 0 || to-from > c[2] || to > c[1] {
				t.Errorf("%v: piece [%d, %d)", c, from, to)
			}
			for i := from; i < to; i++ {
				seen[i].Add(1)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for i := range c[1] {
			if n := seen[i].Load(); n != 1 {
				t.Errorf("%v: element %d was visited %d times", c, i, n)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	bad := errors.New("bad")
	calls := 0
	err := Do(context.Background(), 1, 100, 1, func(from, _ int) error {
		calls++
		if from == 3 {
			return bad
		}
		return nil
	})
	if err != bad || calls != 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(bad)
	if err := Do(ctx, 2, 100, 1, func(int, int) error { t.Error("called"); return nil }); err != bad {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLimit: a context bounds the goroutines of those who ask for one per CPU, and of nobody else.
func TestLimit(t *testing.T) {
	for _, c := range []struct{ limit, workers, most int32 }{{1, 0, 1}, {3, 0, 3}, {1, 2, 2}} {
		var now, peak atomic.Int32
		err := Do(Limit(context.Background(), int(c.limit)), int(c.workers), 64, 1, func(int, int) error {
			n := now.Add(1)
			for {
				old := peak.Load()
				if n <= old || peak.CompareAndSwap(old, n) {
					break
				}
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
			return nil
		})
		if err != nil || peak.Load() > c.most || c.most > 1 && peak.Load() < 2 {
			t.Errorf("%+v: %d at once, %v", c, peak.Load(), err)
		}
	}
}
