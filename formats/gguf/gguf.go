// Package gguf reads and writes GGUF, the container of llama.cpp: keys with values, tensor infos, and the data of the
// tensors.
//
// Parse reads versions 2 and 3 (little-endian). It accepts what llama.cpp accepts and less: names and keys are UTF-8
// without repetition, tensors follow one another without holes, nothing follows the last one, and every count and
// length has a bound, so that no file costs more memory than a small multiple of its header, which has at most
// MaxHeader bytes. Nothing of the data is read. Decoders of the block types are in this package too; they turn the
// bytes of rows into codes and scales, or floats.
//
// Sources: the specification (ggml, docs/gguf.md) and llama.cpp's gguf.cpp; where the two differ, the stricter one
// holds.
package gguf

import (
	"math"
	"slices"
)

// Bounds of a header. Published files stay far below: a vocabulary of 262,144 tokens takes about 10 MB.
const (
	MaxHeader  = 128 << 20 // bytes before the data
	MaxKeys    = 1 << 16
	MaxTensors = 65536
	MaxName    = 63       // bytes of the name of a tensor (GGML_MAX_NAME, with its final zero)
	MaxKey     = 65535    // bytes of a key
	MaxString  = 64 << 20 // bytes of a value
	MaxArray   = 1 << 22  // elements of an array
	maxDims    = 4
)

const (
	magic        = "GGUF"
	alignmentKey = "general.alignment"
	defaultAlign = 32
	maxAlign     = 1 << 20
)

// KV is one key with its value.
type KV struct {
	Key   string
	Value Value
}

// TensorInfo describes one tensor of a file.
type TensorInfo struct {
	Name  string
	Shape []int64 // slowest dimension first: a matrix is [rows, columns]; the file has them the other way round
	Type  Type
	Begin int64 // bytes, counted from the start of the data
	Size  int64 // bytes, without the padding behind them
}

// Weights is the number of elements.
func (t *TensorInfo) Weights() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Columns is the fastest dimension.
func (t *TensorInfo) Columns() int64 { return t.Shape[len(t.Shape)-1] }

// Header of a file.
type Header struct {
	Version   int
	Alignment int64
	Keys      []KV         // in the order of the file
	Tensors   []TensorInfo // in the order of the file, which is that of their offsets
	DataStart int64        // offset in the file of the first byte of data
}

// Get returns the value of a key.
func (h *Header) Get(key string) (Value, bool) {
	i := slices.IndexFunc(h.Keys, func(kv KV) bool { return kv.Key == key })
	if i < 0 {
		return Value{}, false
	}
	return h.Keys[i].Value, true
}

// padded rounds up to a multiple of the alignment; false if that overflows.
func padded(n, align int64) (int64, bool) {
	if n > math.MaxInt64-align {
		return 0, false
	}
	return (n + align - 1) / align * align, true
}
