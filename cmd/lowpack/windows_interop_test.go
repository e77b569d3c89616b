package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// windows holds the Windows program of a release, under Wine, and this one, in one working directory with a checkpoint,
// and model.st, which this program has made from it.
type windows struct {
	*testing.T
	programs, dir string
	model         []byte // model.st
}

// source and modelFile are names in the working directory.
const source, modelFile = "checkpoint", "model.st"

// TestInteropWindows: the Windows program behaves like this one, and handles what is specific to Windows.
func TestInteropWindows(t *testing.T) {
	w := &windows{T: t, programs: t.TempDir(), dir: t.TempDir()}
	interop.Wine(t, "") // or skip
	buildWindows(t, "make", "-C", "../..", "programs", "DIST="+w.programs, "SYSTEMS=windows", "ARCHITECTURES=amd64")
	buildWindows(t, "go", "build", "-o", filepath.Join(w.programs, "files.exe"), "./testdata/windows")
	// Wine takes a second to start unless another Windows program is running.
	defer w.hold("open", filepath.Join(w.programs, "files.exe"))()
	if err := os.CopyFS(w.path(source), os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := w.said(exec.Command("lowpack", "convert", source, "-o", modelFile)); code != 0 {
		t.Fatal(stdout, stderr)
	}
	w.model = w.read(modelFile)
	// Windows is not asked for tiles: both programs compute with the best instruction set of that one.
	var version struct {
		Set string `json:"instruction_set"`
	}
	stdout, stderr, code := w.said(w.command("version", "--json"))
	if err := json.Unmarshal([]byte(stdout), &version); err != nil {
		t.Fatalf("%d %v\n%s%s", code, err, stdout, stderr)
	}
	t.Setenv(kernel.EnvISA, version.Set)
	for _, part := range []struct {
		name string
		test func(windows)
	}{
		{"Same", windows.same},
		{"Paths", windows.paths},
		{"Names", windows.names},
		{"Inputs", windows.inputs},
		{"Killed", windows.killed},
		{"Held", windows.held},
		{"Served", windows.served},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.test(windows{t, w.programs, w.dir, w.model})
			if !bytes.Equal(w.read(modelFile), w.model) {
				t.Error("the model has changed")
			}
		})
	}
}

// buildWindows builds a Windows program.
func buildWindows(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(untilDeadline(t), name, args...)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// command is one of the program for Windows.
func (w *windows) command(args ...string) *exec.Cmd {
	return w.wine("lowpack-windows-amd64.exe", args...)
}

func (w *windows) wine(program string, args ...string) *exec.Cmd {
	cmd := interop.Wine(w.T, filepath.Join(w.programs, program), args...)
	cmd.Dir = w.dir
	return cmd
}

// said runs a command to its end.
func (w *windows) said(cmd *exec.Cmd) (stdout, stderr string, code int) {
	w.Helper()
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		w.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// done runs the program for Windows, which must succeed.
func (w *windows) done(args ...string) {
	w.Helper()
	if stdout, stderr, code := w.said(w.command(args...)); code != 0 {
		w.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
	}
}

// refused runs the Windows program, which must exit with a code, name the reason, and change nothing.
func (w *windows) refused(code int, why string, args ...string) {
	w.Helper()
	before := tree(w, w.dir)
	if stdout, stderr, got := w.said(w.command(args...)); got != code || !strings.Contains(stderr, why) ||
		stdout != "" {
		w.Errorf("%q: exit code %d, want %d and %q\n%s%s", args, got, code, why, stdout, stderr)
	}
	if after := tree(w, w.dir); after != before {
		w.Errorf("%q: before\n%safter\n%s", args, before, after)
	}
}

// both runs a command of both programs, which must print the same on standard output and end alike.
func (w *windows) both(args ...string) {
	w.Helper()
	stdout, stderr, code := w.said(w.command(args...))
	want, _, wantCode := w.said(exec.Command("lowpack", args...))
	if stdout != want || code != wantCode || want == "" {
		w.Errorf("%q: exit code %d, here %d\n%s%s\nhere\n%s", args, code, wantCode, stdout, stderr, want)
	}
}

// hold lets another Windows program hold a file, as files.exe does, until the returned function is called.
func (w *windows) hold(verb, name string) (release func()) {
	w.Helper()
	cmd := w.wine("files.exe", verb, name)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "open" {
		w.Fatalf("%s %s: %q, %v", verb, name, line, err)
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			w.Errorf("%s %s: %v", verb, name, err)
		}
	}
}

// path returns the path of a file in the working directory.
func (w *windows) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// absolute is that path for programs for Windows, to whom Wine shows all files as drive Z.
func (w *windows) absolute(name string) string {
	return "Z:" + strings.ReplaceAll(w.path(name), "/", `\`)
}

func (w *windows) read(name string) []byte {
	w.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.Fatal(err)
	}
	return data
}

func (w *windows) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// want compares a written file with data, and removes it.
func (w *windows) want(name string, data []byte) {
	w.Helper()
	if !bytes.Equal(w.read(name), data) {
		w.Errorf("%s is not what it should be", name)
	}
	if err := os.Remove(w.path(name)); err != nil {
		w.Fatal(err)
	}
}
