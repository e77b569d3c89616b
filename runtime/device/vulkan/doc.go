// Package vulkan is a backend of package device for every device that has a Vulkan driver. It is empty without the
// build tag vulkan: loading a driver needs the dynamic loader of the system, and so a program that is not static.
//
// The kernels are the shaders of _gpu/vulkan, which compute by docs/NUMERICS.md to the bit, whatever the driver: a
// probe of its arithmetic, when a device is opened, chooses between the float unit and integers.
package vulkan
