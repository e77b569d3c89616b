package main

import (
	"os"
	"path/filepath"
	"strings"
)

// usersOf lists the processes that have one of these files open or mapped, as far as this user may inspect them.
func usersOf(files []string) (pids []string) {
	wanted := map[string]bool{}
	for _, file := range files {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			wanted[real] = true
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if opensOne(p, wanted) || mapsOne(p, wanted) {
			pids = append(pids, filepath.Base(p))
		}
	}
	return pids
}

// opensOne reports whether a process has one of the files open.
func opensOne(process string, wanted map[string]bool) bool {
	entries, _ := os.ReadDir(filepath.Join(process, "fd"))
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(process, "fd", e.Name())); err == nil && wanted[to] {
			return true
		}
	}
	return false
}

// mapsOne reports whether a process has one of the files in its memory: the path is the last field of a line (proc(5)).
func mapsOne(process string, wanted map[string]bool) bool {
	text, _ := os.ReadFile(filepath.Join(process, "maps"))
	for line := range strings.Lines(string(text)) {
		if at := strings.IndexByte(line, '/'); at >= 0 && wanted[strings.TrimSuffix(line[at:], "\n")] {
			return true
		}
	}
	return false
}
