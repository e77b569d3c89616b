package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestFullDevice: text that cannot be written is a failure of the environment.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	const model = "../../testdata/tiny-bitnet"
	packed := filepath.Join(t.TempDir(), "packed")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", packed); o.code != 0 {
		t.Fatal(o.out)
	}
	for _, args := range []string{
		"run " + packed + " -p x -n 2", "run " + packed + " --chat -p x -n 2", "verify " + packed,
		"version", "version --json", "--version", "--help", "help", "convert --help", "layouts", "layouts vnni4i",
		"layouts --json", "man", "man convert",
		"completion bash", "inspect " + model, "convert --dry-run " + model, "tokenize -p x " + model,
		"tokenize --decode -p 5 " + model, "__complete con",
	} {
		var notes strings.Builder
		if code := Main(append([]string{"lowpack"}, strings.Fields(args)...), nil, full, &notes); code != 3 ||
			!strings.Contains(notes.String(), "lowpack: standard output: no space left") {
			t.Errorf("%s: exit code %d\n%s", args, code, &notes)
		}
	}
}

// TestLostDirectory: in a directory that was deleted, relative paths lead nowhere.
func TestLostDirectory(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"convert x -o y", "inspect x", "layouts vnni4i --svg z.svg", "run x -p y",
		"synth --like bitnet-2b4t --mini -o z"} {
		cmd := exec.Command("sh", "-c", `mkdir gone && cd gone && rm -r ../gone && exec "$0" `+args, exe)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "LOWPACK_MAIN=1")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 3 ||
			!strings.Contains(string(out), "working directory is gone") {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
}

// TestBusyTarget: if another process writes the target, the exit code is 3 and a message names it.
func TestBusyTarget(t *testing.T) {
	dir, packed := t.TempDir(), filepath.Join(t.TempDir(), "packed")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", packed); o.code != 0 {
		t.Fatal(o.out)
	}
	for _, c := range []struct {
		hidden string
		args   []string
	}{
		{".busy.resume", []string{"convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "--resume"}},
		{".busy.lock", []string{"unpack", packed}},
	} {
		f, err := os.Create(filepath.Join(dir, c.hidden))
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		o := command(t, append(c.args, "-o", filepath.Join(dir, "busy"))...)
		if o.code != 3 || !strings.Contains(o.out, "another process is writing "+filepath.Join(dir, "busy")) {
			t.Errorf("%q: exit code %d\n%s", c.args, o.code, o.out)
		}
		f.Close()
	}
}
