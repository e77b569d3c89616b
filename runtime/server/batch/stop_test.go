package batch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// closed is the Stop of a batch that was stopped before it began.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestStopReading: a batch that is stopped, or interrupted, while its input is read does not read on: of lines not more
// than a buffer holds, of a table not another page.
func TestStopReading(t *testing.T) {
	const n = 2000
	text := input(n)
	dir := t.TempDir()
	tableOf(t, filepath.Join(dir, "in.parquet"), requestsOf(t, text))
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in.jsonl", "in.parquet"} {
		path := filepath.Join(dir, name)
		for _, want := range []error{ErrStopped, context.Canceled} {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop := make(chan struct{})
			in, err := newSource(&inputFile{f, ctx, stop})
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			for ; err == nil; read++ {
				if _, err = in.next(); read > 0 {
					continue
				}
				if want == ErrStopped {
					close(stop)
				} else {
					cancel()
				}
			}
			if !errors.Is(err, want) || read > n/2 {
				t.Errorf("%s: %d lines read, %v", name, read, err)
			}
			in.close()
			f.Close()
		}
	}
}

// TestStopUnchecked: a batch that is stopped before its input was read has the results so far: none, or those of an
// interrupted run, under the same key.
func TestStopUnchecked(t *testing.T) {
	o := files(t, input(20)+"not JSON\n")
	o.Stop = closed()
	if counts, err := Run(t.Context(), o); !errors.Is(err, ErrStopped) || counts != (Counts{}) {
		t.Errorf("%+v, %v", counts, err)
	}
	if got := results(t, o); got != "errors:\n" {
		t.Errorf("%q", got)
	}

	table := tables(t, requestsOf(t, input(20))) // of which even the end cannot be read
	table.Stop = closed()
	if _, err := Run(t.Context(), table); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	if got := linesOf(t, table.Output); got != "" {
		t.Errorf("%q", got)
	}

	o = files(t, input(20))
	o.Parallel = 1
	o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
		if q.Line == 10 {
			return Answer{}, errors.New("killed")
		}
		return answer(ctx, q)
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(atomicfile.ResumePath(o.Output))
	if err != nil {
		t.Fatal(err)
	}
	o.Stop, o.Key = closed(), "another"
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrOtherRun) {
		t.Error(err)
	}
	if now, _ := os.ReadFile(atomicfile.ResumePath(o.Output)); !bytes.Equal(now, journal) {
		t.Error("the answers of another run were changed")
	}
	o.Key = "k"
	counts, err := Run(t.Context(), o)
	if want := (Counts{Total: 10, Completed: 8, Failed: 2}); !errors.Is(err, ErrStopped) || counts != want {
		t.Errorf("%+v, want %+v, %v", counts, want, err)
	}
	if got := results(t, o); strings.Count(got, "\n") != 10+1 {
		t.Errorf("%q", got)
	}
}

// TestStopAnswering: a batch that is stopped does not wait for a request that is being answered, though none is left to
// hand on, and has the results so far.
func TestStopAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, stop, last := files(t, input(3)), make(chan struct{}), make(chan struct{})
		o.Stop, o.Parallel = stop, 3
		o.Progress = func(p Progress) {
			if p.Completed == 2 {
				close(stop)
			}
		}
		o.Answer = func(ctx context.Context, q *Request) (Answer, error) {
			if q.Line < 2 {
				<-last
				return answer(ctx, q)
			}
			synctest.Wait() // until all is read
			close(last)
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}
		if counts, err := Run(t.Context(), o); !errors.Is(err, ErrStopped) || counts != (Counts{3, 2, 0}) {
			t.Errorf("%+v, %v", counts, err)
		}
		if got := results(t, o); strings.Count(got, "\n") != 2+1 || strings.Contains(got, `"id 2"`) {
			t.Errorf("%q", got)
		}
	})
}
