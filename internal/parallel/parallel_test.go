package parallel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
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
