//go:build !unix

package main

import "os/exec"

func group(*exec.Cmd) {}

// stop ends the command, but not what it has started.
func stop(cmd *exec.Cmd) error { return cmd.Process.Kill() }
