//go:build !linux && !darwin && !freebsd && !windows

package atomicfile

func free(string) (bytes uint64, ok bool) { return 0, false }
