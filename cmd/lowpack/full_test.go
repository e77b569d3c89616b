//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a small in-memory file system at a new directory, which requires root.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("this user may not mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fails runs a task that must fail for a reason of the environment, and leave everything as it was.
func (j *task) fails(t *testing.T, words string) {
	t.Helper()
	before := tree(t, filepath.Dir(j.target))
	o := command(t, j.command()...)
	if o.code != 3 || !strings.Contains(o.out, words) || !strings.Contains(o.out, filepath.Dir(j.target)) {
		t.Errorf("%q: exit code %d, want 3, %q and the name of the target\n%s", j.args, o.code, words, o.out)
	}
	if after := tree(t, filepath.Dir(j.target)); after != before {
		t.Errorf("%q: before:\n%s\nafter:\n%s", j.args, before, after)
	}
}

// TestFullDisk writes to a disk that is too small, has no free inode, or is read-only.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	list := tasks(t)
	for options, words := range map[string]string{"size=256k": "no space left",
		"size=64m,nr_inodes=2": "no space left"} {
		dir := mount(t, options)
		for _, j := range list {
			j.target = filepath.Join(dir, "target")
			j.reset(t)
			j.fails(t, words)
			os.Remove(j.target)
		}
	}
	dir := mount(t, "size=64m")
	for i := range list {
		list[i].target = filepath.Join(dir, "target")
	}
	list[0].reset(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, j := range list[:3] {
		j.fails(t, "read-only file system")
	}
	list[3].target = filepath.Join(dir, "new")
	list[3].fails(t, "read-only file system")
}

// TestDiskFillsUp lets several tasks write to a disk that has space for one of them: each succeeds, or fails for lack
// of space.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	dir := mount(t, "size=4m") // a result takes 2.6 MB
	list := tasks(t)[:2]
	wants := make([]string, len(list))
	for i := range list {
		if o := command(t, list[i].command()...); o.code != 0 {
			t.Fatal(o.out)
		}
		wants[i] = list[i].contents(t)
	}
	seen := map[int]int{}
	for range 5 {
		done := make(chan outcome)
		for i := range 4 {
			j := list[i%2]
			j.target = filepath.Join(dir, string(rune('a'+i)))
			go func() { done <- command(t, j.command()...) }()
		}
		for range 4 {
			o := <-done
			seen[o.code]++
			if o.code != 0 && (o.code != 3 || !strings.Contains(o.out, "no space left")) {
				t.Errorf("exit code %d\n%s", o.code, o.out)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if b, _ := os.ReadFile(path); string(b) != wants[0] && string(b) != wants[1] {
				t.Errorf("%s is left with %d bytes", e.Name(), len(b))
			}
			os.Remove(path)
		}
	}
	t.Log(seen)
}

// TestFileSizeLimit: a file size limit is reached in the middle of the data.
func TestFileSizeLimit(t *testing.T) {
	t.Setenv("LOWPACK_TEST_FSIZE", "1000000")
	for _, j := range tasks(t) {
		j.reset(t)
		j.fails(t, "ulimit -f")
	}
}

// limitFiles bounds the size of files that this process writes.
func limitFiles(bytes string) {
	if n, err := strconv.ParseUint(bytes, 10, 63); err == nil {
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
	}
}
