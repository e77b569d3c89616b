package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	_ "github.com/lowpack/lowpack/cmd/lowpack/internal/addressspace" // checks the limit of the address space
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// Minimum headroom that a command needs below the limits of its process. With less, the Go runtime would crash in the
// middle of the work, with a stack trace; with hardly any, it crashes before main.
const (
	needFiles   = 12
	needThreads = 16 // and two per CPU
)

// checkLimits reports limits of this process (ulimit) that are too low to work in.
func checkLimits() error {
	for _, check := range []func() error{checkFiles, checkThreads} {
		if err := check(); err != nil {
			return atomicfile.Failed(err)
		}
	}
	return nil
}

// checkFiles opens as many files as a command may need at once, by system calls that bypass the runtime's poller.
func checkFiles() error {
	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for range needFiles {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EMFILE {
			return fmt.Errorf("fewer than %d more files can be opened; raise the limit (ulimit -n)", needFiles)
		}
		if err == nil {
			open = append(open, fd)
		}
	}
	return nil
}

// checkThreads compares this user's limit of threads with the number that run. Root has no limit.
func checkThreads() error {
	var limit unix.Rlimit
	need := uint64(needThreads + 2*runtime.GOMAXPROCS(0))
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return nil
	}
	// Counting examines every process, which is worthwhile only if the limit is low.
	if limit.Cur < 1<<12 && limit.Cur < threadsOfUser()+need {
		return fmt.Errorf("this user may run %d threads, and fewer than %d are left; raise the limit (ulimit -u)",
			limit.Cur, need)
	}
	return nil
}

// threadsOfUser counts the threads of this user's processes.
func threadsOfUser() (n uint64) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	user := strconv.Itoa(os.Getuid())
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + p.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		if ids := strings.Fields(statusLine(string(status), "Uid:")); len(ids) > 0 && ids[0] == user {
			threads, _ := strconv.ParseUint(statusLine(string(status), "Threads:"), 10, 32)
			n += threads
		}
	}
	return n
}
