package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Check reports what would keep Create from writing the target, so that it is known before any work: a directory that
// is missing, a name that this system does not take, or something at the target that is not a regular file or is in
// use.
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
		return Failed(fmt.Errorf("%s is a symbolic link, which would be replaced; name the file that it points to", target))
	case info.IsDir():
		return Failed(fmt.Errorf("%s is a directory that exists already, which is not replaced; name another path", target))
	case !info.Mode().IsRegular():
		return Failed(fmt.Errorf("%s exists and is not a regular file (%s)", target, info.Mode().Type()))
	}
	return nil
}

// File systems take names of 255 bytes. The longest ending of a hidden name is that of File.hidden.
const (
	longestName   = 255
	longestEnding = len(".0123456789abcdef" + suffix)
)

// hiddenPrefix begins the names of hidden files for a target: .NAME. Of a name too long for that a digest stands for
// the end.
func hiddenPrefix(name string) string {
	const most = longestName - longestEnding - len(".")
	if len(name) > most {
		digest := sha256.Sum256([]byte(name))
		end := "~" + hex.EncodeToString(digest[:8])
		name = name[:most-len(end)] + end
	}
	return "." + name
}
