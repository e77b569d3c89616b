// Package interop runs the programs of others that lowpack claims to agree with, for tests only. `make interop`
// installs them (.ci/interop) and runs the tests named TestInterop…; elsewhere these are skipped.
package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python runs a script in the virtual environment of a tool, .ci/interop/TOOL.txt, and returns what it prints to
// standard output. Without LOWPACK_INTEROP the test is skipped; with it a tool that is missing or fails ends the test.
func Python(t testing.TB, tool, script string, args ...string) []byte {
	t.Helper()
	python := Interpreter(t, tool)
	cmd := exec.CommandContext(t.Context(), python, append([]string{script}, args...)...)
	// No model is asked for on a network, and sums do not depend on the number of cores.
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TORCHDYNAMO_DISABLE=1", "OMP_NUM_THREADS=1",
		"PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}

// Interpreter is the Python of a tool, for programs that name it in their first line. It is skipped and fails as Python
// does.
func Interpreter(t testing.TB, tool string) string {
	t.Helper()
	if os.Getenv("LOWPACK_INTEROP") == "" {
		t.Skip("asks another program: make interop")
	}
	python := filepath.Join(cache(t), tool, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("%s is not installed, make interop does it: %v", tool, err)
	}
	return python
}

// Node runs a script of JavaScript next to the packages of a tool, .ci/interop/TOOL/package.json, and returns what it
// prints to standard output. The script finds them in the folder PACKAGES. It is skipped and fails as Python does.
func Node(t testing.TB, tool, script string, args ...string) []byte {
	t.Helper()
	if os.Getenv("LOWPACK_INTEROP") == "" {
		t.Skip("asks another program: make interop")
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "PACKAGES="+filepath.Join(cache(t), tool)) // modules look only next to themselves
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}

// File finds a file of a package in the virtual environment of a tool.
func File(t testing.TB, tool, pattern string) string {
	t.Helper()
	return find(t, tool, filepath.Join("lib", "*", "site-packages", pattern))
}

// NodeFile finds a file of a package of JavaScript.
func NodeFile(t testing.TB, tool, pattern string) string {
	t.Helper()
	return find(t, tool, filepath.Join("node_modules", pattern))
}

// Unpacked finds a file in the source archive of a tool, .ci/interop/TOOL.sdist.
func Unpacked(t testing.TB, tool, file string) string {
	t.Helper()
	return find(t, tool, file)
}

func find(t testing.TB, tool, pattern string) string {
	t.Helper()
	if os.Getenv("LOWPACK_INTEROP") == "" {
		t.Skip("asks another program: make interop")
	}
	names, err := filepath.Glob(filepath.Join(cache(t), tool, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s of %s: %q, %v; make interop installs it", pattern, tool, names, err)
	}
	return names[0]
}

// cache is the folder of the virtual environments, as in .ci/interop/setup.
func cache(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "lowpack-interop")
}

// Recorded holds an answer against the one recorded in a file, byte for byte. If they differ the file is renewed, for a
// look at the difference, and the test fails.
func Recorded(t testing.TB, path string, answer []byte) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, answer) {
		return
	}
	if err := os.WriteFile(path, answer, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s was not what the program answers, and now is: look at the difference", path)
}
