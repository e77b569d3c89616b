//go:build vulkan && !windows

package vulkan

import (
	"runtime"

	"github.com/ebitengine/purego"
)

var libraries = map[bool][]string{
	false: {"libvulkan.so.1", "libvulkan.so"},
	true:  {"libvulkan.1.dylib", "libMoltenVK.dylib"},
}[runtime.GOOS == "darwin"]

// openLibrary returns the address of vkGetInstanceProcAddr in a library.
func openLibrary(name string) (uintptr, error) {
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(lib, "vkGetInstanceProcAddr")
}
