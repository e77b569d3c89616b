//go:build !(linux && amd64)

package kernel

import (
	"errors"
	"fmt"
)

// permitTiles knows only how Linux is asked.
func permitTiles() error {
	return fmt.Errorf("%w: only Linux is asked for them", errors.ErrUnsupported)
}
