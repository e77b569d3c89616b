package atomicfile

import (
	"os"
	"slices"
	"sync"
)

// live are the hidden files and directories that the end of the process would leave behind, in the order in which they
// were made. What Resume keeps is not among them.
var live struct {
	sync.Mutex
	paths []string
}

// making calls f, which makes something hidden at path, unless the process is ending: then it never returns.
func making(path string, f func() error) error {
	live.Lock()
	defer live.Unlock()
	err := f()
	if err == nil {
		live.paths = append(live.paths, path)
	}
	return err
}

// gone forgets a path that has been removed or renamed.
func gone(path string) {
	live.Lock()
	defer live.Unlock()
	live.paths = slices.DeleteFunc(live.paths, func(p string) bool { return p == path })
}

// Abandon removes all hidden files and directories of unfinished work, for a process that ends without waiting for
// those who write them. From then on nothing is made any more: who tries waits until the process has ended.
func Abandon() {
	live.Lock() // for good
	for _, path := range slices.Backward(live.paths) {
		os.RemoveAll(path)
	}
}
