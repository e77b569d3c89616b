package cuda

import (
	"fmt"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// result is what functions of libcuda return.
type result int32

// Results that are told apart.
const (
	success     result = 0
	outOfMemory result = 2
	notReady    result = 600
)

// driver is the part of libcuda that is used. The tags are the names of the functions after cu.
type driver struct {
	Init              func(flags uint32) result                                        `cu:"Init"`
	DriverVersion     func(version *int32) result                                      `cu:"DriverGetVersion"`
	ErrorName         func(r result, name **byte) result                               `cu:"GetErrorName"`
	DeviceCount       func(n *int32) result                                            `cu:"DeviceGetCount"`
	DeviceGet         func(device *int32, i int32) result                              `cu:"DeviceGet"`
	DeviceName        func(name *byte, n int32, device int32) result                   `cu:"DeviceGetName"`
	DeviceTotalMem    func(bytes *uint64, device int32) result                         `cu:"DeviceTotalMem_v2"`
	DeviceAttribute   func(value *int32, attribute, device int32) result               `cu:"DeviceGetAttribute"`
	ContextRetain     func(context *uintptr, device int32) result                      `cu:"DevicePrimaryCtxRetain"`
	ContextRelease    func(device int32) result                                        `cu:"DevicePrimaryCtxRelease_v2"`
	ContextSet        func(context uintptr) result                                     `cu:"CtxSetCurrent"`
	MemInfo           func(free, total *uint64) result                                 `cu:"MemGetInfo_v2"`
	MemAlloc          func(at *uint64, bytes uint64) result                            `cu:"MemAlloc_v2"`
	MemFree           func(at uint64) result                                           `cu:"MemFree_v2"`
	HostAlloc         func(at *unsafe.Pointer, bytes uint64) result                    `cu:"MemAllocHost_v2"`
	HostFree          func(at unsafe.Pointer) result                                   `cu:"MemFreeHost"`
	MemUpload         func(to uint64, from *byte, n uint64, stream uintptr) result     `cu:"MemcpyHtoDAsync_v2"`
	MemDownload       func(to *byte, from, n uint64, stream uintptr) result            `cu:"MemcpyDtoHAsync_v2"`
	MemCopy           func(to, from, n uint64, stream uintptr) result                  `cu:"MemcpyDtoDAsync_v2"`
	ModuleLoad        func(module *uintptr, image *byte) result                        `cu:"ModuleLoadData"`
	ModuleUnload      func(module uintptr) result                                      `cu:"ModuleUnload"`
	ModuleFunction    func(f *uintptr, module uintptr, name *byte) result              `cu:"ModuleGetFunction"`
	FunctionAttribute func(f uintptr, attribute, value int32) result                   `cu:"FuncSetAttribute"`
	StreamCreate      func(stream *uintptr, flags uint32) result                       `cu:"StreamCreate"`
	StreamDestroy     func(stream uintptr) result                                      `cu:"StreamDestroy_v2"`
	StreamQuery       func(stream uintptr) result                                      `cu:"StreamQuery"`
	StreamWait        func(stream uintptr) result                                      `cu:"StreamSynchronize"`
	CaptureBegin      func(stream uintptr, mode int32) result                          `cu:"StreamBeginCapture_v2"`
	CaptureEnd        func(stream uintptr, graph *uintptr) result                      `cu:"StreamEndCapture"`
	Launch            func(c *config, f uintptr, params, extra *unsafe.Pointer) result `cu:"LaunchKernelEx"`
	GraphInstantiate  func(e *uintptr, graph uintptr, flags uint64) result             `cu:"GraphInstantiateWithFlags"`
	GraphDestroy      func(graph uintptr) result                                       `cu:"GraphDestroy"`
	GraphLaunch       func(executable, stream uintptr) result                          `cu:"GraphLaunch"`
	GraphFree         func(executable uintptr) result                                  `cu:"GraphExecDestroy"`
}

// Numbers of cuda.h.
const (
	attributeMultiprocessors = 16
	attributeMajor           = 75
	attributeMinor           = 76
	attributeSharedMemory    = 97 // bytes of a block, at most

	functionSharedMemory = 8 // dynamic bytes, at most

	launchCluster = 4 // blocks of a cluster
	launchEarly   = 6 // programmatic dependent launch

	captureThread = 1 // other threads may call whatever they like
	streamOwn     = 1 // does not wait for the default stream
)

// config is CUlaunchConfig.
type config struct {
	grid, block [3]uint32
	shared      uint32
	_           uint32
	stream      uintptr
	attributes  *attribute
	count       uint32
	_           uint32
}

// attribute is CUlaunchAttribute.
type attribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

// check makes an error of a result. What did not succeed is said by call.
func (d *driver) check(r result, call string, args ...any) error {
	if r == success {
		return nil
	}
	name := fmt.Sprintf("error %d", r)
	var text *byte
	if d.ErrorName(r, &text) == success && text != nil {
		name = goString(text)
	}
	err := fmt.Errorf("CUDA: %s: %s", fmt.Sprintf(call, args...), name)
	if r == outOfMemory {
		err = fmt.Errorf("%w: %w", pack.ErrLimit, err)
	}
	return err
}

// goString copies a string that ends with a zero.
func goString(at *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(at), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(at, n))
}
