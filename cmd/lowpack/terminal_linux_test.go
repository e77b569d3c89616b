package main

import (
	"io"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal. shown waits until it is closed and returns what was written to it.
func openTerminal(t *testing.T) (terminal *os.File, shown func() string) {
	t.Helper()
	master, terminal := openBoth(t)
	text := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(master) // ends with an error when the terminal is closed
		text <- string(b)
	}()
	return terminal, func() string { return <-text }
}

// openBoth opens both ends of a terminal.
func openBoth(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return master, terminal
}
