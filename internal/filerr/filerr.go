// Package filerr adds the name of a file to errors about it.
package filerr

import (
	"fmt"
	"strings"
)

// Named adds the path to an error that does not tell it already, as those of the operating system do.
func Named(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
