//go:build !unix

package hostile

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
