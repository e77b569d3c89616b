package atomicfile

import (
	"os"
	"slices"
	"sync"
)

// live lists the hidden files and directories that the process would leave behind if it ended now, in order of
// creation; files of Resume are not among them.
var live struct {
	sync.Mutex
	paths []string
}

// making calls f, which creates something hidden at path. If the process is ending, it never returns.
func making(path string, f func() error) error {
	live.Lock()
	defer live.Unlock()
	err := f()
	if err == nil {
		live.paths = append(live.paths, path)
	}
	return err
}

// gone removes a path that was removed or renamed from live.
func gone(path string) {
	live.Lock()
	defer live.Unlock()
	live.paths = slices.DeleteFunc(live.paths, func(p string) bool { return p == path })
}

// Abandon removes all hidden files and directories of unfinished work, for a process that exits without waiting for its
// writers. Afterwards nothing more is created: writers block until the process has ended.
func Abandon() {
	live.Lock() // never unlocked
	for _, path := range slices.Backward(live.paths) {
		os.RemoveAll(path)
	}
}
