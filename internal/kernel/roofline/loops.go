package roofline

import (
	"encoding/binary"
	"sync/atomic"
)

// sink keeps the compiler from leaving loops out.
var sink atomic.Uint64

// streamGeneric reads p word by word.
func streamGeneric(p []byte) {
	var a, b, c, d uint64
	for ; len(p) >= 32; p = p[32:] {
		a |= binary.LittleEndian.Uint64(p)
		b |= binary.LittleEndian.Uint64(p[8:])
		c |= binary.LittleEndian.Uint64(p[16:])
		d |= binary.LittleEndian.Uint64(p[24:])
	}
	sink.Store(a | b | c | d)
}

// multiplyGeneric multiplies and adds 8·n integers.
func multiplyGeneric(n int) {
	var a [8]int32
	x := int32(sink.Load())
	for range n {
		for i := range a {
			a[i] += x * int32(int8(a[i]))
		}
	}
	sink.Store(uint64(uint32(a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7])))
}

// floatsGeneric multiplies and adds 8·n floats.
func floatsGeneric(n int) {
	var a [8]float32
	x := float32(sink.Load() & 1)
	for range n {
		for i := range a {
			a[i] += float32(x * x)
		}
	}
	sink.Store(uint64(a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]))
}
