//go:build !windows

package main

import (
	"os"
	"syscall"
)

// become replaces the process by its twin, with the same arguments and the version that it is to have. It returns if
// the twin cannot be started.
func become(twin string, args []string) {
	env := append(os.Environ(), envTwinOf+"="+fullVersion())
	_ = syscall.Exec(twin, args, env) // the command then says that there is no driver
}
