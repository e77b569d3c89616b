package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/faultfs"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// work is something that writes a target.
type work struct {
	name    string
	resumes bool // it keeps state for the next run
	dir     bool // it writes a directory, which must not exist
	do      func(fs atomicfile.FS, target string) error
}

// works are all that write packed files or checkpoints, on inputs of a few tensors.
func works(t testing.TB) []work {
	t.Helper()
	path := fewTensors(t)
	run := func(o Options) func(fs atomicfile.FS, target string) error {
		return func(fs atomicfile.FS, target string) error {
			p, err := NewPlan(context.Background(), path, o)
			if err != nil {
				return err
			}
			defer p.Close()
			p.fs = fs
			_, err = p.Run(context.Background(), target)
			return err
		}
	}
	o := plain(packed.Recipe{})
	o.Threads = 1 // the same operations in the same order every time
	resumed, part := o, o
	resumed.Resume = true
	part.Part, part.Parts = 1, 2
	source := filepath.Join(t.TempDir(), "source.safetensors")
	if err := run(o)(atomicfile.OS, source); err != nil {
		t.Fatal(err)
	}
	all := parts(t, path, o, 2)
	model := converted(t, mini(t, "trilm-99m", nil), packed.Recipe{Golden: "none"}) // with embedded files
	return []work{
		{"convert", false, false, run(o)},
		{"resume", true, false, run(resumed)},
		{"part", false, false, run(part)},
		{"merge", false, false, func(fs atomicfile.FS, target string) error {
			_, err := Merge(context.Background(), all, target, MergeOptions{fs: fs})
			return err
		}},
		{"repack", false, false, func(fs atomicfile.FS, target string) error {
			_, err := Repack(context.Background(), source, target, RepackOptions{Layout: "i2", Threads: 1, fs: fs})
			return err
		}},
		{"unpack", false, true, func(fs atomicfile.FS, target string) error {
			_, err := Unpack(context.Background(), model, target, UnpackOptions{Form: FormBF16, Threads: 1, fs: fs})
			return err
		}},
	}
}

// systems lists the file systems whose operations differ for the work.
func (w *work) systems() []atomicfile.FS {
	windows := faultfs.NewWindows(atomicfile.OS)
	if w.dir { // all its files have names
		return []atomicfile.FS{atomicfile.OS, windows}
	}
	return []atomicfile.FS{atomicfile.OS, faultfs.Named{FS: atomicfile.OS}, windows}
}

// result returns what a work has written.
func (w *work) result(t testing.TB) string {
	t.Helper()
	at := newPlace(t, "")
	if err := w.do(atomicfile.OS, at.target); err != nil {
		t.Fatal(err)
	}
	return written(at.target)
}

// written returns what is at a path: the content of a file; names and contents of a directory.
func written(path string) string {
	entries, err := os.ReadDir(path)
	if err != nil {
		b, _ := os.ReadFile(path)
		return string(b)
	}
	var s strings.Builder
	for _, e := range entries {
		content := written(filepath.Join(path, e.Name()))
		fmt.Fprintf(&s, "%s: %d\n", e.Name(), len(content))
		s.WriteString(content)
	}
	return s.String()
}

// place is an empty directory or, every other time where the work replaces a file, one with an old file.
func (w *work) place(t testing.TB, k int) place {
	t.Helper()
	if w.dir {
		return newPlace(t, "")
	}
	return newPlace(t, []string{"", "old"}[k%2])
}

// ends runs the work to completion after an interruption: the result is right, and nothing else is left.
func (w *work) ends(t testing.TB, at place, want, name string) {
	t.Helper()
	done := w.dir && written(at.target) == want // a directory is never written over
	if err := w.do(atomicfile.OS, at.target); done != (err != nil) {
		t.Errorf("%s: afterwards: %v", name, err)
	}
	got := written(at.target)
	if entries, _ := os.ReadDir(at.dir); got != want || len(entries) != 1 {
		t.Errorf("%s: afterwards the target has %d bytes, of %d, right: %v; in the directory are %v", name, len(got),
			len(want), got == want, entries)
	}
}

// stray lists what is left next to the target and is not state to resume from.
func (w *work) stray(at place) (names []string) {
	entries, _ := os.ReadDir(at.dir)
	for _, e := range entries {
		path := filepath.Join(at.dir, e.Name())
		if path != at.target && !(w.resumes &&
			(path == atomicfile.ResumePath(at.target) || path == JournalPath(at.target))) {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestEveryWriteFault fails every file system operation, one at a time, with every error that disks give. The target is
// unchanged, nothing is left behind, no file stays open, and the error names the cause; then the work succeeds. Without
// LOWPACK_LONG each operation fails with one or two of the errors; each error meets every third operation, and so old
// targets and none.
func TestEveryWriteFault(t *testing.T) {
	faults := []struct {
		cause syscall.Errno
		short bool
	}{{syscall.EIO, false}, {syscall.ENOSPC, false}, {syscall.EDQUOT, false}, {syscall.ENOSPC, true}}
	for _, w := range works(t) {
		want := w.result(t)
		goroutines, files := runtime.NumGoroutine(), descriptors()
		cut := 0 // short writes
		for s, below := range w.systems() {
			for i, f := range race.Few(1, faults) {
				step := 3 // odd, because w.place depends on k's parity
				if long.All || race.Enabled {
					step = race.Every(5)
				}
				from := (s + i) % step
				for k := from; ; k += step {
					fs := &faultfs.FS{Below: below, At: k, Err: f.cause, Short: f.short}
					at := w.place(t, k)
					err := w.do(fs, at.target)
					ops := fs.Ops()
					if len(ops) <= k {
						if err != nil || k < 12 {
							t.Fatalf("%s: %d operations without a fault: %v", w.name, len(ops), err)
						}
						break
					}
					if f.short && ops[k] == "write" {
						cut++
					}
					name := fmt.Sprintf("%s: %v at operation %d (%s)", w.name, f.cause, k, ops[k])
					if now := descriptors(); fs.OpenFiles() != 0 || now != files {
						t.Errorf("%s: %d files stay open, %d descriptors of %d", name, fs.OpenFiles(), now, files)
					}
					w.fails(t, at, ops[k], err, f.cause, name)
					w.ends(t, at, want, name)
				}
			}
		}
		if cut == 0 && !race.Enabled {
			t.Errorf("%s: no write was short", w.name)
		}
		wait.Goroutines(t, goroutines)
	}
}

// descriptors is the number of open files of this process, if the system reports it.
func descriptors() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

// fails checks the state after a fault at the operation op.
func (w *work) fails(t testing.TB, at place, op string, err error, cause error, name string) {
	t.Helper()
	got := written(at.target)
	committed := got != at.old
	switch {
	// the data are synced by then, or given up
	case op == "remove" || op == "remove all" || op == "close" && !w.dir || committed && op == "close":
		if err != nil && !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
		return
	case !errors.Is(err, cause):
		t.Errorf("%s: error %v", name, err)
	case op == "lock" && w.dir: // nobody knows whose lock it is
		return
	case op == "sync directory" && (committed || !w.dir):
		if !committed || !strings.Contains(err.Error(), "complete") {
			t.Errorf("%s: the target is %.40q, or it does not say that it is complete: %v", name, got, err)
		}
		return
	case committed:
		t.Errorf("%s: the target became %.40q", name, got)
	}
	if stray := w.stray(at); len(stray) > 0 {
		t.Errorf("%s: left behind: %v", name, stray)
	}
}

// TestPowerFailure simulates power loss at every operation and examines what disks may hold then: the target is absent,
// old or complete, whatever was lost; and the next run succeeds and removes what is left. Disks with the same content
// are examined once.
func TestPowerFailure(t *testing.T) {
	seeds := 1 / race.Every(4)
	if long.All {
		seeds = 30
	}
	for _, w := range works(t) {
		want := w.result(t)
		seen, ended := map[string]int{}, map[[sha256.Size]byte]bool{}
		for i, below := range w.systems() {
			for k := 0; ; k += race.Every(3) {
				at := w.place(t, k+i)
				fs, err := faultfs.NewVolatile(below, at.dir, k)
				if err != nil {
					t.Fatal(err)
				}
				failed := w.do(fs, at.target)
				done := fs.Ops() <= k // before the power failed
				if done && (failed != nil || k < 12) {
					t.Fatalf("%s: %d operations, and the power did not fail: %v", w.name, fs.Ops(), failed)
				}
				for seed := range seeds + 2 {
					kept := 0.5
					if seed < 2 {
						kept = float64(seed)
					}
					name := fmt.Sprintf("%s, power failure at operation %d, %.0f %% kept, seed %d", w.name, k,
						100*kept, seed)
					rng := rand.New(rand.NewPCG(uint64(seed), uint64(fs.At)))
					disk := lostPower{fs, at, kept, rng, name}
					state := w.afterPower(t, disk, want, ended)
					if done && state != "complete" {
						t.Errorf("%s: the work was done, but the target is %s", name, state)
					}
					seen[state]++
				}
				if done {
					break
				}
			}
		}
		t.Log(w.name, seen)
		if seen["complete"] == 0 || seen["absent"] == 0 || seen["old"] == 0 != w.dir {
			t.Errorf("%s: only %v were seen", w.name, seen)
		}
	}
}

// lostPower is a disk after a power failure that kept some of the unsynced data.
type lostPower struct {
	*faultfs.Volatile
	was  place
	kept float64
	rand *rand.Rand
	name string
}

// afterPower examines one disk and returns the state of its target. ended holds the digests of disks on which the work
// has been run.
func (w *work) afterPower(t *testing.T, l lostPower, want string, ended map[[sha256.Size]byte]bool) (state string) {
	t.Helper()
	dir, err := os.MkdirTemp(os.TempDir(), "disk-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := l.After(dir, l.kept, l.rand); err != nil {
		t.Fatal(err)
	}
	at := place{dir: dir, target: filepath.Join(dir, filepath.Base(l.was.target))}
	_, err = os.Stat(at.target)
	got := written(at.target)
	switch {
	case err == nil && got == want:
		state = "complete"
	case err == nil && got == l.was.old:
		state = "old"
	case errors.Is(err, os.ErrNotExist) && l.was.old == "":
		state = "absent"
	default:
		t.Errorf("%s: the target has %d bytes and is neither old nor complete (%v)", l.name, len(got), err)
	}
	if disk := sha256.Sum256([]byte(written(dir))); !ended[disk] {
		ended[disk] = true
		w.ends(t, at, want, l.name)
	}
	return state
}
