package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Check returns the error that Create would return for the target, before any work is done: a missing directory, an
// invalid name, or an existing target that is not a regular file or is in use.
func Check(target string) error {
	dir := filepath.Dir(target)
	info, err := os.Stat(dir)
	if err != nil {
		return Failed(err)
	}
	if !info.IsDir() {
		return Failed(fmt.Errorf("%s is not a directory", dir))
	}
	if err := checkTarget(target); err != nil {
		return err
	}
	return checkHeld(target)
}

func checkTarget(target string) error {
	if err := CheckName(target); err != nil {
		return err
	}
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return Failed(err)
	case info.Mode()&os.ModeSymlink != 0:
		return Failed(fmt.Errorf("%s is a symbolic link, which would be replaced; name its target", target))
	case info.IsDir():
		return Failed(fmt.Errorf("%s is a directory that already exists, which is not replaced; name another path",
			target))
	case !info.Mode().IsRegular():
		return Failed(fmt.Errorf("%s exists and is not a regular file (%s)", target, info.Mode().Type()))
	}
	return nil
}

// File systems allow names of 255 bytes. The longest suffix of a hidden name is File.hidden's.
const (
	longestName   = 255
	longestEnding = len(".0123456789abcdef" + suffix)
)

// hiddenPrefix returns the start of the hidden names of a target: .NAME. In a name that is too long, a digest replaces
// the end.
func hiddenPrefix(name string) string {
	const limit = longestName - longestEnding - len(".")
	if len(name) > limit {
		digest := sha256.Sum256([]byte(name))
		end := "~" + hex.EncodeToString(digest[:8])
		name = name[:limit-len(end)] + end
	}
	return "." + name
}
