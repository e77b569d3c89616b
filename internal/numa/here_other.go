//go:build !linux

package numa

func here() Topology { return Topology{Nodes: []Node{{}}} }

// Mask is the CPUs that a thread may run on.
type Mask struct{}

// Own returns the mask of the calling thread.
func Own() Mask { return Mask{} }

// Restore does nothing.
func (Mask) Restore() error { return nil }

// Bind does nothing.
func Bind([]int) error { return nil }
