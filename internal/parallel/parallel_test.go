package parallel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lowpack/lowpack/internal/mmap"
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

// TestEach: for any number of workers, the error is that of the smallest i, every task below it has run, and a worker
// runs one task at a time. With synctest's clock, others fail while the smallest i waits.
// TestFault: a page of a mapped file that a task cannot read is an error.
func TestFault(t *testing.T) {
	err := Each(t.Context(), 2, 3, func(int, int) error { panic(&mmap.Fault{Name: "model"}) })
	if f, ok := errors.AsType[*mmap.Fault](err); !ok || f.Name != "model" {
		t.Error(err)
	}
}

func TestEach(t *testing.T) { synctest.Test(t, testEach) }

func testEach(t *testing.T) {
	for workers := 1; workers <= 8; workers++ {
		var seen [64]atomic.Int32
		var busy [8]atomic.Int32
		bad := [64]error{17: errors.New("17"), 18: errors.New("18"), 23: errors.New("23")}
		err := Each(context.Background(), workers, 64, func(worker, i int) error {
			if busy[worker].Add(1) != 1 {
				t.Errorf("worker %d has two tasks", worker)
			}
			defer busy[worker].Add(-1)
			seen[i].Add(1)
			if i == 17 {
				time.Sleep(time.Millisecond)
			}
			return bad[i]
		})
		if err != bad[17] {
			t.Errorf("%d workers: %v", workers, err)
		}
		for i := range seen {
			if n := seen[i].Load(); n > 1 || i <= 17 && n != 1 {
				t.Errorf("%d workers: task %d ran %d times", workers, i, n)
			}
		}
	}
}

// TestCancelled: a context that ends during the work stops it; one that ends after the last task has started does not.
func TestCancelled(t *testing.T) {
	why := errors.New("enough")
	for at, want := range map[int]error{3: why, 9: nil} {
		ctx, cancel := context.WithCancelCause(context.Background())
		calls := 0
		err := Each(ctx, 1, 10, func(_, i int) error {
			if calls++; i == at {
				cancel(why)
			}
			return nil
		})
		if err != want || calls != at+1 {
			t.Errorf("%v after %d calls, want %v", err, calls, want)
		}
	}
}

// TestLimit: a context limits the goroutines of calls with workers = 0, and no others. With synctest's clock, all that
// may run concurrently do.
func TestLimit(t *testing.T) { synctest.Test(t, testLimit) }

func testLimit(t *testing.T) {
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
		if err != nil || peak.Load() != c.most {
			t.Errorf("%+v: %d at once, %v", c, peak.Load(), err)
		}
	}
}
