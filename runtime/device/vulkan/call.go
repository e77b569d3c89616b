//go:build vulkan

package vulkan

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Handles of Vulkan. Dispatchable ones are pointers, of the same size on the 64-bit machines that this builds for.
type (
	ptr    = unsafe.Pointer
	handle = uint64
)

// result is a VkResult that is not success.
type result int32

const timedOut result = 2

func (r result) Error() string {
	names := map[result]string{-1: "out of memory of the host", -2: "out of memory of the device",
		-3: "initialization failed",
		-4: "device lost", -7: "an extension is missing", -8: "a feature is missing", -9: "no driver",
		timedOut: "timed out"}
	if name, ok := names[r]; ok {
		return "vulkan: " + name
	}
	return fmt.Sprintf("vulkan: error %d", int32(r))
}

// library is the Vulkan loader of the system.
var library = sync.OnceValues(func() (getInstanceProcAddr uintptr, err error) {
	var errs []error
	for _, name := range libraries {
		at, err := openLibrary(name)
		if err == nil {
			return at, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("no Vulkan loader on this system: %w", errors.Join(errs...))
})

// call calls a function. Pointers are passed as pointers: a uintptr made earlier would not keep its object alive.
func call(f uintptr, args ...any) result {
	var a [12]uintptr
	for i, v := range args {
		switch v := v.(type) {
		case int:
			a[i] = uintptr(v)
		case uint32:
			a[i] = uintptr(v)
		case uint64:
			a[i] = uintptr(v)
		case uintptr:
			a[i] = v
		case ptr:
			a[i] = uintptr(v)
		default:
			panic(fmt.Sprintf("vulkan: an argument of type %T", v))
		}
	}
	r, _, _ := purego.SyscallN(f, a[:len(args)]...)
	runtime.KeepAlive(args)
	return result(int32(r))
}

var escape struct {
	on bool
	p  ptr
}

// at is a pointer to v as an argument of call; it puts v on the heap, where objects do not move.
func at[T any](v *T) ptr {
	if escape.on {
		escape.p = ptr(v)
	}
	return ptr(v)
}

// check is the error of a call.
func check(what string, r result) error {
	if r != 0 {
		return fmt.Errorf("%s: %w", what, r)
	}
	return nil
}

func cString(s string) *byte { return &append([]byte(s), 0)[0] }

func goString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
