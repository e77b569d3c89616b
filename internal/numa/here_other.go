//go:build !linux

package numa

func here() Topology { return Topology{Nodes: []Node{{}}} }

// Bind does nothing.
func Bind([]int) error { return nil }
