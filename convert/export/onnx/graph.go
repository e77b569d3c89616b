package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
)

// kind is a TensorProto.DataType.
type kind int64

const (
	float32Kind  kind = 1
	uint8Kind    kind = 2
	int32Kind    kind = 6
	int64Kind    kind = 7
	float16Kind  kind = 10
	bfloat16Kind kind = 16
	uint4Kind    kind = 21 // two to a byte, the first one in the low bits
)

// bits of an element; 0 for kinds that are not written.
func (k kind) bits() int64 {
	switch k {
	case uint4Kind:
		return 4
	case uint8Kind:
		return 8
	case float16Kind, bfloat16Kind:
		return 16
	case float32Kind, int32Kind:
		return 32
	case int64Kind:
		return 64
	}
	return 0
}

// contrib is the domain of onnxruntime's additional operators, at version 1.
const contrib = "com.microsoft"

// opsets lists the operator-set versions of the graph, by domain.
var opsets = []opset{{"", 21}, {contrib, 1}}

type opset struct {
	domain  string
	version int64
}

// graph is a model: the contents of a ModelProto without tensor data.
type graph struct {
	nodes           []node
	tensors         []tensor
	inputs, outputs []value
	metadata        [][2]string
	opsets          []opset
}

// node is an operation.
type node struct {
	domain, op string
	in, out    []string
	attributes []attribute
}

// attribute of a node: an int64, a float32, a string, a list of int64 or a graph.
type attribute struct {
	name  string
	value any
}

// value is an input or an output of the graph. Dimensions are numbers, or names of sizes known only at run time.
type value struct {
	name string
	kind kind
	dims []any // int64 or string
}

// tensor is a constant of the graph, an initializer. Its data are in the model, or at offset of the data file.
type tensor struct {
	name   string
	kind   kind
	dims   []int64
	inline []byte // nil: in the data file
	offset int64
}

// bytes is the size of the data.
func (t *tensor) bytes() int64 {
	n := t.kind.bits()
	for _, d := range t.dims {
		n *= d
	}
	return (n + 7) / 8
}

// builder builds a graph, and records the sources of its tensor data.
type builder struct {
	graph
	known map[string]int                   // index of a tensor
	data  map[string]func(io.Writer) error // of tensors in the data file
	end   int64                            // of the data file
}

func newBuilder() *builder {
	return &builder{graph: graph{opsets: opsets}, known: map[string]int{}, data: map[string]func(io.Writer) error{}}
}

// op adds a node and returns its first output, which names it.
func (b *builder) op(kind string, in []string, out string, attributes ...attribute) string {
	return b.ops("", kind, in, []string{out}, attributes)
}

// contrib adds a node of an operator of onnxruntime.
func (b *builder) contrib(kind string, in []string, out string, attributes ...attribute) string {
	return b.ops(contrib, kind, in, []string{out}, attributes)
}

func (b *builder) ops(domain, kind string, in, out []string, attributes []attribute) string {
	b.nodes = append(b.nodes, node{domain, kind, in, out, attributes})
	return out[0]
}

// inlineBytes is the size of the largest tensor stored in the model itself: shape inference reads constants only there.
const inlineBytes = 1024

// Alignment of offsets in the data file, so that runtimes can map it: pages, and the allocation granularity of Windows
// for large tensors.
const (
	page       = 4 << 10
	large      = 1 << 20
	largePages = 64 << 10
)

// tensor adds a tensor once. Its data are written later, or now if it is small.
func (b *builder) tensor(name string, kind kind, dims []int64, data func(io.Writer) error) (string, error) {
	if i, known := b.known[name]; known {
		if t := &b.tensors[i]; t.kind != kind || !slices.Equal(t.dims, dims) {
			return "", fmt.Errorf("tensor %q is needed with shapes %v and %v", name, t.dims, dims)
		}
		return name, nil
	}
	t := tensor{name: name, kind: kind, dims: dims}
	if n := t.bytes(); n <= inlineBytes {
		if err := data(appender{&t.inline}); err != nil {
			return "", err
		}
	} else {
		t.offset = aligned(b.end, n)
		b.data[name], b.end = data, t.offset+n
	}
	b.known[name] = len(b.tensors)
	b.tensors = append(b.tensors, t)
	return name, nil
}

// aligned returns the first offset for a tensor of n bytes after end.
func aligned(end, n int64) int64 {
	to := int64(page)
	if n >= large {
		to = largePages
	}
	return (end + to - 1) / to * to
}

// appender appends to a slice.
type appender struct{ to *[]byte }

func (a appender) Write(p []byte) (int, error) {
	*a.to = append(*a.to, p...)
	return len(p), nil
}

// constant adds a small tensor of known data.
func (b *builder) constant(name string, kind kind, dims []int64, data []byte) string {
	if _, known := b.known[name]; !known {
		b.known[name] = len(b.tensors)
		b.tensors = append(b.tensors, tensor{name: name, kind: kind, dims: dims, inline: data})
	}
	return name
}

// scalar is a float.
func (b *builder) scalar(x float32) string {
	return b.constant(fmt.Sprintf("float.%v", x), float32Kind, nil,
		binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
}

// integer is a number.
func (b *builder) integer(x int64) string {
	return b.constant(fmt.Sprintf("int.%d", x), int64Kind, nil, binary.LittleEndian.AppendUint64(nil, uint64(x)))
}

// ints is a vector of integers.
func (b *builder) ints(list ...int64) string {
	var data []byte
	for _, x := range list {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
	}
	return b.constant(fmt.Sprintf("ints.%v", list), int64Kind, []int64{int64(len(list))}, data)
}

// dataSize is the size of the data file.
func (b *builder) dataSize() (size int64) {
	for i := range b.tensors {
		if t := &b.tensors[i]; t.inline == nil {
			size = t.offset + t.bytes()
		}
	}
	return size
}

// writeData writes the data file: tensors in their order, zeros between them.
func (b *builder) writeData(w io.Writer) error {
	at := int64(0)
	for i := range b.tensors {
		t := &b.tensors[i]
		if t.inline != nil {
			continue
		}
		if _, err := w.Write(make([]byte, t.offset-at)); err != nil { // less than largePages
			return err
		}
		c := &folder.Counting{To: w}
		if err := b.data[t.name](c); err != nil {
			return err
		}
		if c.N != t.bytes() {
			return fmt.Errorf("tensor %q: %d bytes were written for shape %v", t.name, c.N, t.dims)
		}
		at = t.offset + c.N
	}
	return nil
}
