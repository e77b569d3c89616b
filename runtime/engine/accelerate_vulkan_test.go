//go:build vulkan

package engine

import _ "github.com/lowpack/lowpack/runtime/device/vulkan"

func init() { devices = []string{"vulkan:0"} }
