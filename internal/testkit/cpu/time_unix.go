//go:build unix

package cpu

import (
	"syscall"
	"time"
)

// Time is the processor time that this process has used, in its own code and in the system.
func Time() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
