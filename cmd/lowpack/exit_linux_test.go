package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFullDevice: text that cannot be written is a failure of the environment.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	const model = "../../testdata/tiny-bitnet"
	for _, args := range []string{
		"version", "version --json", "--version", "--help", "help", "convert --help", "layouts", "layouts vnni4i", "layouts --json", "man", "man convert",
		"completion bash", "inspect " + model, "convert --dry-run " + model, "tokenize -p x " + model, "tokenize --decode -p 5 " + model, "__complete con",
	} {
		var notes strings.Builder
		if code := Main(append([]string{"lowpack"}, strings.Fields(args)...), nil, full, &notes); code != 3 || !strings.Contains(notes.String(), "no space left") {
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
	for _, args := range []string{"convert x -o y", "inspect x", "layouts vnni4i --svg z", "run x -p y", "synth --like bitnet-2b4t --mini -o z"} {
		cmd := exec.Command("sh", "-c", `mkdir gone && cd gone && rmdir ../gone && exec "$0" `+args, exe)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "LOWPACK_MAIN=1")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out), "working directory is gone") {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
}
