package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestWrite: pieces are written in order, whichever is made first, and not more of them are in memory than goroutines.
// On the clock of synctest the first of every eight takes longest.
func TestWrite(t *testing.T) { synctest.Test(t, testWrite) }

func testWrite(t *testing.T) {
	for workers := 1; workers <= 8; workers++ {
		var out, want bytes.Buffer
		free := make(chan []byte, workers) // as many buffers as there may be; one too many waits for ever
		for range workers {
			free <- make([]byte, 0, 8)
		}
		err := Write(Limit(context.Background(), workers), &out, 64, func(b []byte, i int) ([]byte, error) {
			if cap(b) == 0 {
				b = <-free
			}
			time.Sleep(time.Duration(8-i%8) * time.Millisecond)
			return fmt.Appendf(b, "%d,", i), nil
		})
		for i := range 64 {
			fmt.Fprintf(&want, "%d,", i)
		}
		if err != nil || out.String() != want.String() {
			t.Errorf("%d workers: %v, %s", workers, err, &out)
		}
	}
}

// TestWriteErrors: whoever fails first, the error is that of the smallest piece, and what is before it is written.
func TestWriteErrors(t *testing.T) { synctest.Test(t, testWriteErrors) }

func testWriteErrors(t *testing.T) {
	bad := map[int]error{5: errors.New("5"), 6: errors.New("6"), 7: errors.New("7")}
	for workers := 1; workers <= 8; workers++ {
		var out bytes.Buffer
		err := Write(Limit(context.Background(), workers), &out, 64, func(b []byte, i int) ([]byte, error) {
			time.Sleep(time.Duration(8-i%8) * time.Millisecond)
			return fmt.Append(b, i), bad[i]
		})
		if err != bad[5] || out.String() != "01234" {
			t.Errorf("%d workers: %v, wrote %s", workers, err, &out)
		}
		full := &limited{room: 3}
		err = Write(Limit(context.Background(), workers), full, 64,
			func(b []byte, i int) ([]byte, error) { return append(b, 'x'), nil })
		if err != errFull || full.calls != 4 {
			t.Errorf("%d workers: %v after %d calls", workers, err, full.calls)
		}
	}
}

var errFull = errors.New("full")

type limited struct{ room, calls int }

func (l *limited) Write(p []byte) (int, error) {
	if l.calls++; l.calls > l.room {
		return 0, errFull
	}
	return len(p), nil
}
