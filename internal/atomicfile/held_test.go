package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNotReplaced: where Windows does not replace a file that is in use, the error says so and what to do; other
// errors are as they were.
func TestNotReplaced(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const accessDenied, diskFull = syscall.Errno(5), syscall.Errno(112)
	for _, c := range []struct {
		system, target string
		errno          syscall.Errno
		explained      bool
	}{
		{"windows", target, accessDenied, true},
		{"windows", target, 32, true},
		{"windows", target, 1224, true},
		{"windows", target, diskFull, false},
		{"windows", target + ".new", accessDenied, false}, // the directory refuses it
		{"linux", target, accessDenied, false},            // EIO
	} {
		before := &os.LinkError{Op: "rename", Old: "hidden", New: c.target, Err: c.errno}
		err := notReplaced(c.system, c.target, before)
		if !errors.Is(err, c.errno) || strings.Contains(err.Error(), endIt) != c.explained {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
