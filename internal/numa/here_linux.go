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

// Mask is the CPUs that a thread may run on; the zero value is none.
type Mask struct{ set unix.CPUSet }

// Own returns the mask of the calling thread.
func Own() (m Mask) {
	_ = unix.SchedGetaffinity(0, &m.set)
	return m
}

// Restore gives the calling thread the mask. No thread can have the zero value.
func (m Mask) Restore() error { return unix.SchedSetaffinity(0, &m.set) }

// Bind lets the calling thread run on these CPUs only.
func Bind(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}
