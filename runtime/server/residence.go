package server

import "fmt"

// residence says what copies of the weights for NUMA nodes take; "" if there are none.
func (m *model) residence() string {
	n, copied := m.engine.Nodes()
	if copied == 0 {
		return ""
	}
	return fmt.Sprintf("; weights copied to the memory of %d NUMA nodes: %.1f MB", n, float64(copied)/1e6)
}
