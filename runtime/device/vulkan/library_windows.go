//go:build vulkan && windows

package vulkan

import "syscall"

var libraries = []string{"vulkan-1.dll"}

// openLibrary returns the address of vkGetInstanceProcAddr in a library.
func openLibrary(name string) (uintptr, error) {
	lib, err := syscall.LoadLibrary(name)
	if err != nil {
		return 0, err
	}
	return syscall.GetProcAddress(lib, "vkGetInstanceProcAddr")
}
