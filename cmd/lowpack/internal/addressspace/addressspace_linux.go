// Package addressspace ends a program whose address space is limited (ulimit -v) to less than it needs, while it is
// being initialized: packages that come later allocate, and the Go runtime crashes there now and then, with a stack
// trace. A package is initialized as soon as all that it imports is, in the order of paths: this one imports next to
// nothing.
package addressspace

import (
	"strconv"
	"syscall"
)

const (
	need       = 3 << 30 // bytes; reserved, not used, for the most part
	exitFailed = 3       // the environment failed
)

func init() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur >= need {
		return
	}
	text := "lowpack: the address space is limited to " + strconv.FormatUint(limit.Cur>>10, 10) +
		" KiB; lowpack needs " + strconv.Itoa(need>>10) + ": raise the limit (ulimit -v)\n"
	_, _ = syscall.Write(syscall.Stderr, []byte(text))
	syscall.Exit(exitFailed)
}
