//go:build vulkan && linux

package engine

import (
	"github.com/lowpack/lowpack/runtime/device"
	_ "github.com/lowpack/lowpack/runtime/device/cuda"
)

// init adds the first NVIDIA GPU, where there is one, to the devices that give the logits of the CPU.
func init() {
	if b, err := device.Open("cuda"); err == nil && b.Close() == nil {
		devices = append(devices, "cuda")
	}
}
