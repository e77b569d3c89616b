package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Wine is a command line that runs a program for Windows in the home of Wine that .ci/interop/setup makes. It is
// skipped and fails as Python does.
func Wine(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getenv("LOWPACK_INTEROP") == "" {
		t.Skip("asks another program: make interop")
	}
	home := filepath.Join(cache(t), "wine", "home")
	_, err := os.Stat(filepath.Join(filepath.Dir(home), "prng.c")) // copied last
	if err != nil {
		t.Fatalf("Wine is not installed (Debian: wine, gcc-mingw-w64-x86-64), make interop makes its home then: %v",
			err)
	}
	cmd := exec.CommandContext(t.Context(), "wine", append([]string{program}, args...)...)
	// Arguments and file names are UTF-8; Wine's own bcryptprimitives.dll is not used.
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "WINEPREFIX="+home, "WINEDEBUG=-all",
		"WINEDLLOVERRIDES=bcryptprimitives=n;mscoree,mshtml=")
	return cmd
}
