package server

import "fmt"

// onDevice reports whether a device computes layers of the model.
func (m *model) onDevice() bool {
	n, _ := m.engine.DeviceLayers()
	return n > 0
}

// division says how the layers of the model are divided between a device and the CPU; "" if they are not.
func (m *model) division() string {
	n, all := m.engine.DeviceLayers()
	if n == 0 || n == all {
		return ""
	}
	return fmt.Sprintf("; %d of %d layers are on the device, the others on the CPU", n, all)
}

// makeRoom unloads an idle model that takes memory of a device which has no room for all layers of m beside it. It
// returns false if all are there, if so many were asked for, or if no such model is idle. m is not yet used.
func (s *models) makeRoom(m *model) bool {
	if m.division() == "" || m.engine.Options().DeviceLayers > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unloadOldest((*model).onDevice)
}
