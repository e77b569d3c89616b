package numa

// Here returns the topology of this machine as the process first saw it: one node where threads cannot be bound, which
// some containers forbid.
func Here() Topology { return here() }
