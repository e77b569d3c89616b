package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/numa"
)

// TestNUMAMachine runs on a machine of two nodes with two CPUs each, which .ci/steps/deep/numa emulates, with a file
// whose weights are read where they are stored and is not in the page cache, and one whose weights are repacked.
func TestNUMAMachine(t *testing.T) {
	stored, repacked := os.Getenv("LOWPACK_NUMA_STORED"), os.Getenv("LOWPACK_NUMA_REPACKED")
	if stored == "" || repacked == "" {
		t.Skip("LOWPACK_NUMA_STORED and LOWPACK_NUMA_REPACKED name no files")
	}
	want := []numa.Node{{ID: 0, CPUs: []int{0, 1}}, {ID: 1, CPUs: []int{2, 3}}}
	if here := numa.Here(); !reflect.DeepEqual(here.Nodes, want) {
		t.Fatalf("%+v; want %+v", here.Nodes, want)
	}
	tokens := []int{1, 2, 3, 4, 5}
	for _, c := range []struct {
		path  string
		mode  NUMA
		least float64 // of the pages that lie on their node
	}{
		{stored, NUMADistribute, 0.75}, // read-ahead crosses the borders of nodes
		{stored, NUMACopy, 0.99},
		{repacked, NUMADistribute, 0.99},
	} {
		e := openedOn(t, c.path, Options{NUMA: c.mode})
		if bound := boundThreads(t); bound["0-1"] < 1 || bound["2-3"] < 2 {
			t.Errorf("%s, %s: threads by CPUs: %v", filepath.Base(c.path), c.mode, bound)
		}
		got := logits(t, e, tokens, len(tokens))
		local, all := 0, 0
		for node := range want {
			on, n := pagesOn(t, e, node)
			local, all = local+on, all+n
		}
		t.Logf("%s, %s: %d of %d pages lie on the node that reads them", filepath.Base(c.path), c.mode, local, all)
		if all < 1000 || float64(local) < c.least*float64(all) {
			t.Errorf("%s, %s: %d of %d pages lie on the node that reads them; want %v", filepath.Base(c.path), c.mode,
				local, all, c.least)
		}
		off := openedOn(t, c.path, Options{NUMA: NUMAOff})
		if one := logits(t, off, tokens, len(tokens)); !slices.EqualFunc(got, one, slices.Equal) {
			t.Errorf("%s, %s: other logits", filepath.Base(c.path), c.mode)
		}
	}
}

func openedOn(t *testing.T, path string, o Options) *Engine {
	t.Helper()
	o.Threads, o.Context = 4, 64
	e, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// boundThreads counts the threads of this process by the CPUs that they may run on.
func boundThreads(t *testing.T) map[string]int {
	t.Helper()
	files, _ := filepath.Glob("/proc/self/task/*/status")
	bound := map[string]int{}
	for _, f := range files {
		text, _ := os.ReadFile(f) // a thread may have ended
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				bound[strings.TrimSpace(list)]++
			}
		}
	}
	return bound
}

// pagesOn counts the whole pages of the codes that a node takes first, and those of them that lie there.
func pagesOn(t *testing.T, e *Engine, node int) (on, all int) {
	t.Helper()
	where := map[int32]int{}
	for _, f := range e.weights.projections() {
		for i := range f.matrices {
			m := &f.matrices[i]
			for _, b := range weightsOf(m.codes) {
				for _, at := range nodesOfPages(t, portionOf(f, m).of(e.pool, node, b)) {
					where[at]++
				}
			}
		}
	}
	for _, n := range where {
		all += n
	}
	t.Logf("pages that node %d reads, by where they lie (below 0: an error of Linux): %v", node, where)
	return where[int32(node)], all
}

func weightsOf(w *kernel.Weights) [][]byte {
	if w == nil {
		return nil
	}
	if list := w.Owned(); len(list) > 0 {
		return list
	}
	return [][]byte{w.Stored()}
}

// nodesOfPages asks the kernel where the whole pages of b lie.
func nodesOfPages(t *testing.T, b []byte) []int32 {
	t.Helper()
	size := os.Getpagesize()
	var pages []unsafe.Pointer
	for at := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (size - 1); at+size <= len(b); at += size {
		pages = append(pages, unsafe.Pointer(&b[at]))
	}
	if len(pages) == 0 {
		return nil
	}
	status := make([]int32, len(pages))
	_, _, err := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)), uintptr(unsafe.Pointer(&pages[0])), 0,
		uintptr(unsafe.Pointer(&status[0])), 0)
	if err != 0 {
		t.Fatal(fmt.Errorf("move_pages: %w", err))
	}
	return status
}
