package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/runtime/device"
)

// A device computes the last layers of a model and the output head, the CPU the others in front of them: so the
// residual stream of a token goes to the device once, as its embedding does where the device computes all layers, and
// only what was asked for comes back.

// onDevice returns the part of a model that a device is to compute: as many layers as were asked for, or as fit beside
// the least KV cache of the options.
func (e *Engine) onDevice(info device.Info, m *device.Model) (*device.Model, error) {
	shape, all := e.deviceShape(), len(m.Blocks)
	shape.Pages = e.leastPages()
	n, err := device.Layers(info, m, shape)
	if asked := min(e.opt.DeviceLayers, all); err == nil && asked > 0 {
		n = asked
		if err = device.Fits(info, m.Last(n), shape); err != nil {
			err = fmt.Errorf("%d of %d layers (without --device-layers it is as many as fit): %w", n, all, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return m.Last(n), nil
}

// DeviceLayers is the number of layers that the device computes, the last ones of the model with the output head, and
// the number of all layers. It is 0 without a device.
func (e *Engine) DeviceLayers() (n, all int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all = len(e.weights.blocks)
	if e.device == nil {
		return 0, all
	}
	return all - e.device.first, all
}
