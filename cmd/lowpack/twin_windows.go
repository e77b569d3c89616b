package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs another program with the same arguments, and ends with its exit code. It returns if that cannot be started.
func become(program string, args []string) {
	c := exec.Command(program, args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	var failed *exec.ExitError
	if err == nil || errors.As(err, &failed) {
		os.Exit(c.ProcessState.ExitCode())
	}
}
