//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group puts a command and all that it starts into a process group.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// stop ends the process group.
func stop(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
