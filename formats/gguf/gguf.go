// Package gguf reads and writes GGUF, the file format of llama.cpp: key-value pairs, tensor infos and tensor data.
//
// Parse reads versions 2 and 3, little-endian. It is stricter than llama.cpp: names and keys are unique UTF-8, tensors
// are contiguous, nothing follows the last tensor, and every count and length is bounded, so that memory stays within a
// small multiple of the header size, which is at most MaxHeader. Parse does not read tensor data. The package also
// decodes rows of the block types into codes and scales, or into floats.
//
// Sources: the specification (ggml, docs/gguf.md) and gguf.cpp of llama.cpp; where they differ, the stricter one
// applies.
package gguf

import (
	"math"
	"slices"
)

// Limits of a header. Published files stay far below: a vocabulary of 262,144 tokens takes about 10 MB.
const (
	MaxHeader  = 128 << 20 // bytes before the tensor data
	MaxKeys    = 1 << 16
	MaxTensors = 65536
	MaxName    = 63       // bytes of a tensor name (GGML_MAX_NAME minus the terminating NUL)
	MaxKey     = 65535    // bytes of a key
	MaxString  = 64 << 20 // bytes of a string value
	MaxArray   = 1 << 22  // elements of an array
	maxDims    = 4
)

const (
	magic        = "GGUF"
	alignmentKey = "general.alignment"
	defaultAlign = 32
	maxAlign     = 1 << 20
)

// KV is a key-value pair.
type KV struct {
	Key   string
	Value Value
}

// TensorInfo describes a tensor of a file.
type TensorInfo struct {
	Name  string
	Shape []int64 // slowest dimension first, so a matrix is [rows, columns]; the reverse of the file's order
	Type  Type
	Begin int64 // offset in bytes from the start of the tensor data
	Size  int64 // bytes without trailing padding
}

// Weights returns the number of elements.
func (t *TensorInfo) Weights() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Columns returns the size of the fastest dimension.
func (t *TensorInfo) Columns() int64 { return t.Shape[len(t.Shape)-1] }

// Header is the header of a file.
type Header struct {
	Version   int
	Alignment int64
	Keys      []KV         // in file order
	Tensors   []TensorInfo // in file order, which is the order of offsets
	DataStart int64        // file offset of the tensor data
}

// Get returns the value of a key.
func (h *Header) Get(key string) (Value, bool) {
	i := slices.IndexFunc(h.Keys, func(kv KV) bool { return kv.Key == key })
	if i < 0 {
		return Value{}, false
	}
	return h.Keys[i].Value, true
}

// padded rounds n up to a multiple of align; false = overflow.
func padded(n, align int64) (int64, bool) {
	if n > math.MaxInt64-align {
		return 0, false
	}
	return (n + align - 1) / align * align, true
}
