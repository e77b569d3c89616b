//go:build vulkan && linux

package main

import _ "github.com/lowpack/lowpack/runtime/device/cuda" // a driver of devices
