package numa

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

var here = sync.OnceValue(func() Topology {
	t := Read(os.DirFS("/"))
	var now unix.CPUSet
	if unix.SchedGetaffinity(0, &now) != nil || unix.SchedSetaffinity(0, &now) != nil {
		t.Nodes = []Node{{CPUs: t.CPUs()}}
	}
	return t
})

// Bind lets the calling thread run on these CPUs only.
func Bind(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}
