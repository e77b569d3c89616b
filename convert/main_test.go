package convert

import (
	"os"
	"testing"
)

// TestMain puts the temporary files of tests in memory where that is possible: they are synced some thousand times.
func TestMain(m *testing.M) {
	const memory = "/dev/shm"
	if os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp(memory, "lowpack-test-"); err == nil {
			os.Setenv("TMPDIR", dir)
			code := m.Run()
			os.RemoveAll(dir)
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// onDisk returns a temporary directory that is not in memory.
func onDisk(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "lowpack-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
