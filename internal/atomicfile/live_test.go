package atomicfile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// TestAbandon ends a process during its work: only files for Resume and committed files remain.
func TestAbandon(t *testing.T) {
	if dir := os.Getenv("ABANDONED"); dir != "" {
		abandon(t, dir)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAbandon$")
	cmd.Env = append(os.Environ(), "ABANDONED="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := names(t, dir)
	if len(got) != 3 || got[0] != ".kept.resume" || got[1] != "file" || got[2] != "whole" {
		t.Errorf("left behind: %v", got)
	}
}

func abandon(t *testing.T, dir string) {
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := write(systems["named"], in("file")); err != nil {
		t.Fatal(err)
	}
	whole, err := atomicfile.CreateDir(atomicfile.OS, in("whole"))
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, fs := range systems {
		if _, err := atomicfile.Create(fs, in("target")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := atomicfile.Resume(atomicfile.OS, in("kept")); err != nil {
		t.Fatal(err)
	}
	d, err := atomicfile.CreateDir(atomicfile.OS, in("model"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create("half"); err != nil {
		t.Fatal(err)
	}
	atomicfile.Abandon()
	go func() {
		d.Create("late")
		os.Exit(1)
	}()
	go func() {
		atomicfile.CreateDir(atomicfile.OS, in("other"))
		os.Exit(2)
	}()
	for range 100 {
		os.Stat(dir) // lets other goroutines run
	}
	os.Exit(0)
}
