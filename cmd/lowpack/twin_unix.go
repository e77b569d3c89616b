//go:build !windows

package main

import (
	"os"
	"syscall"
)

// become replaces the process by another program with the same arguments. It returns if that cannot be started.
func become(program string, args []string) {
	_ = syscall.Exec(program, args, os.Environ()) // the command then says that there is no driver
}
