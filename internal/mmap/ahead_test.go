package mmap

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// aheadOf maps a file of n pages. at returns some of its bytes, and number the page that they begin on.
func aheadOf(t *testing.T, n int) (view []byte, at func(page, bytes int) []byte, number func([]byte) int) {
	t.Helper()
	page := os.Getpagesize()
	_, view = mapped(t, make([]byte, n*page))
	return view, func(p, bytes int) []byte { return view[p*page:][:bytes] },
		func(b []byte) int { return int(address(b)-address(view)) / page }
}

// TestAheadOrder: pieces come stage by stage, those of a stage by address; parts on adjacent pages are one piece, long
// ones several, and what is in no mapped file is none.
func TestAheadOrder(t *testing.T) {
	page := os.Getpagesize()
	pages := 2*aheadPiece/page + 8
	_, at, number := aheadOf(t, pages)
	a := newAhead([][][]byte{
		{at(6, 100), at(4, page+100)[50:], make([]byte, 2*page)},
		{},
		{at(2, page), nil, at(0, page)},
		{at(8, aheadPiece+page)},
	}, pages*page, nil)
	type run struct{ page, bytes int }
	var got []run
	for b := a.take(); b != nil; b = a.take() {
		if address(b)%uintptr(page) != 0 {
			t.Errorf("%d bytes begin in the middle of a page", len(b))
		}
		got = append(got, run{number(b), len(b)})
	}
	want := []run{{4, page + 100}, {6, 100}, {0, page}, {2, page}, {8, aheadPiece}, {8 + aheadPiece/page, page}}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	ends := []int{0, page + 200, page + 200, 3*page + 200, 4*page + 200 + aheadPiece}
	if !slices.Equal(a.starts, ends) {
		t.Errorf("stages at %d, want %d", a.starts, ends)
	}
	joined := newAhead([][][]byte{{at(3, page), at(2, page), at(2, 10)}}, 0, nil).pieces
	if len(joined) != 1 || number(joined[0].data) != 2 || len(joined[0].data) != 2*page {
		t.Errorf("adjacent pages are %d pieces", len(joined))
	}
}

// TestAheadWindow: no more than a window is read ahead of the use, and nothing that has been used.
func TestAheadWindow(t *testing.T) { synctest.Test(t, testAheadWindow) }

func testAheadWindow(t *testing.T) {
	page := os.Getpagesize()
	_, at, number := aheadOf(t, 10)
	var stages [][][]byte
	for i := range 10 {
		stages = append(stages, [][]byte{at(i, page)})
	}
	var mu sync.Mutex
	var got []int
	a := newAhead(stages, 2*page, func(b []byte) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, number(b))
		return nil
	})
	a.start()
	for _, step := range []struct {
		stage int
		want  []int
	}{{0, []int{0, 1}}, {1, []int{2}}, {0, nil}, {5, []int{5, 6}}, {10, nil}} {
		a.Reach(step.stage)
		synctest.Wait()
		mu.Lock()
		slices.Sort(got)
		if !slices.Equal(got, step.want) {
			t.Errorf("in stage %d pages %v were read, want %v", step.stage, got, step.want)
		}
		got = nil
		mu.Unlock()
	}
	a.Close()
	a.Close()
}

// TestAheadStops: Close ends what waits for the window, and an error ends reading.
func TestAheadStops(t *testing.T) { synctest.Test(t, testAheadStops) }

func testAheadStops(t *testing.T) {
	page := os.Getpagesize()
	_, at, _ := aheadOf(t, 8)
	waiting := newAhead([][][]byte{{at(0, page)}, {at(4, page)}}, page, func([]byte) error { return nil })
	waiting.start()
	synctest.Wait()
	waiting.Close()

	calls := 0
	var mu sync.Mutex
	stages := [][][]byte{{at(0, page)}, {at(2, page)}, {at(4, page)}, {at(6, page)}}
	failing := newAhead(stages, 8*page, func([]byte) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return errors.New("bad")
	})
	failing.start()
	failing.readers.Wait()
	if calls > aheadReaders {
		t.Errorf("%d pieces were read after errors", calls)
	}
}

// TestReadAhead: a whole file and a truncated one are read without a signal, and stay as they are.
func TestReadAhead(t *testing.T) {
	page := os.Getpagesize()
	data := bytes.Repeat([]byte("lowpack "), page)
	path, view := mapped(t, data)
	for range 2 {
		a := ReadAhead([][][]byte{{view[100:]}, {view[:10]}}, len(view)+page, nil)
		a.readers.Wait()
		a.Close()
		if !bytes.Equal(view[:page], data[:page]) {
			t.Error("data have changed")
		}
		if err := os.Truncate(path, int64(page)); err != nil {
			t.Skip(err) // Windows cannot truncate a mapped file
		}
	}
}
