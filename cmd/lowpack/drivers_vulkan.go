//go:build vulkan

package main

import _ "github.com/lowpack/lowpack/runtime/device/vulkan" // a driver of devices
