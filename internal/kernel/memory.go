package kernel

import "unsafe"

// Views of memory as other integers.

func asInt8(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

func asBytes(x []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// asInt16 views aligned bytes.
func asInt16(b []byte) []int16 {
	return unsafe.Slice((*int16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

// asInt32 views floats as bits.
func asInt32(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// asFloat32 views aligned bytes.
func asFloat32(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// asUint16 views aligned bytes.
func asUint16(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

// alignedBytes returns n zero bytes of the Go heap that begin at a multiple of 64.
func alignedBytes(n int) []byte { return alignedTo(64, n) }

// alignedTo is alignedBytes for another power of two.
func alignedTo(boundary, n int) []byte {
	b := make([]byte, n+boundary-1)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (boundary - 1)
	return b[off : off+n : off+n]
}
