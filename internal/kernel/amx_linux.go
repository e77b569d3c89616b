//go:build linux && amd64

package kernel

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// Calls and numbers of Linux: arch/x86/include/uapi/asm/prctl.h; Documentation/arch/x86/xstate.rst.
const (
	archPrctl          = 158
	archSupportedState = 0x1021 // ARCH_GET_XCOMP_SUPP
	archRequestState   = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileState          = 18     // XTILEDATA
	tileStates         = 3 << 17
)

// permitTiles asks the system for permission to use the tile registers, once, for all current and future threads of
// this process. It fails if the CPU, hypervisor or system lacks them (Linux before 5.16 does), or if a non-Go thread
// has an alternate signal stack that is too small for them; Go's have 32 KiB.
var permitTiles = sync.OnceValue(func() error {
	var states uint64
	if _, _, e := syscall.RawSyscall(archPrctl, archSupportedState, uintptr(unsafe.Pointer(&states)), 0); e != 0 {
		return fmt.Errorf("arch_prctl(ARCH_GET_XCOMP_SUPP): %w", e)
	}
	if states&tileStates != tileStates {
		return fmt.Errorf("it does not keep them for threads (states %#x)", states)
	}
	if _, _, e := syscall.RawSyscall(archPrctl, archRequestState, tileState, 0); e != 0 {
		return fmt.Errorf("arch_prctl(ARCH_REQ_XCOMP_PERM): %w", e)
	}
	return nil
})
