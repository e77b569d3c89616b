package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNotReplaced: if Windows cannot replace a file in use, the error explains it and the remedy; other errors are
// unchanged.
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
		{"windows", target + ".new", accessDenied, false}, // no permission for the directory
		{"linux", target, accessDenied, false},            // EIO
	} {
		before := &os.LinkError{Op: "rename", Old: "hidden", New: c.target, Err: c.errno}
		err := notReplaced(c.system, c.target, before)
		if !errors.Is(err, c.errno) || strings.Contains(err.Error(), endIt) != c.explained {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
