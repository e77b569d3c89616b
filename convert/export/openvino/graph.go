package openvino

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
)

// element is an element type by its name in attributes.
type element string

const (
	f32     element = "f32"
	f16     element = "f16"
	bf16    element = "bf16"
	i64     element = "i64"
	i32     element = "i32"
	i8      element = "i8"
	u8      element = "u8"
	i4      element = "i4"
	u4      element = "u4"
	u2      element = "u2"
	f4e2m1  element = "f4e2m1"
	f8e8m0  element = "f8e8m0"
	boolean element = "boolean"
	text    element = "string"
)

// precision is the name of an element type in ports.
func (e element) precision() string {
	switch e {
	case f32:
		return "FP32"
	case f16:
		return "FP16"
	case boolean:
		return "BOOL"
	}
	return strings.ToUpper(string(e))
}

// bits returns the stored bits per element.
func (e element) bits() int64 {
	switch e {
	case u2:
		return 2
	case i4, u4, f4e2m1:
		return 4
	case f16, bf16:
		return 16
	case f32, i32:
		return 32
	case i64:
		return 64
	}
	return 8
}

// graph is a model in OpenVINO's intermediate representation, without the data of constants.
type graph struct {
	layers []layer
	info   []field // rt_info
}

// layer is an operation. Its outputs are numbered after its inputs.
type layer struct {
	name, op      string
	decompression bool // the marker of weights that stay as they are stored
	data          []attribute
	in            []value
	out           []output
}

type attribute struct{ name, value string }

// field of rt_info: a value, or fields.
type field struct {
	name, value string
	fields      []field
}

// value is an output of a layer.
type value struct{ layer, port int }

// output of a layer, with the name of its tensor if it has one.
type output struct {
	element element
	name    string
}

// opsets maps the operators in use to their operator sets.
var opsets = map[string]string{
	"Assign":                    "opset6",
	"Clamp":                     "opset1",
	"Gather":                    "opset8",
	"Gelu":                      "opset7",
	"Range":                     "opset4",
	"ReadValue":                 "opset6",
	"Round":                     "opset5",
	"ScaledDotProductAttention": "opset13",
	"ShapeOf":                   "opset3",
	"Slice":                     "opset8",
	"Softmax":                   "opset8",
	"Swish":                     "opset4",
	"Broadcast":                 "opset3",
	"StringTensorUnpack":        "opset15", "StringTensorPack": "opset15",
}

// opset of an operator.
func opset(op string) string {
	if extension[op] {
		return "extension"
	}
	if o, ok := opsets[op]; ok {
		return o
	}
	return "opset1"
}

// builder builds a graph. Its first error sticks.
type builder struct {
	graph
	*data
	known map[string]value
	err   error
}

// data holds the constants of a graph, or of several graphs that share a data file, and the sources of their bytes.
type data struct {
	constants []constant // in the order of the data file
	places    map[string]int
	end       int64 // of the data file
}

// constant of a data file.
type constant struct {
	name         string
	offset, size int64
	write        func(io.Writer) error
	codes        *form // of quantized weights
}

func newBuilder() *builder { return sharing(&data{places: map[string]int{}}) }

// sharing returns a builder for a graph that shares the data file d.
func sharing(d *data) *builder { return &builder{data: d, known: map[string]value{}} }

// place returns the location of a constant.
func (d *data) place(name string, size int64, write func(io.Writer) error) *constant {
	i, known := d.places[name]
	if !known {
		c := constant{name: name, offset: (d.end + alignment - 1) / alignment * alignment, size: size, write: write}
		i, d.end = len(d.constants), c.offset+c.size
		d.constants, d.places[name] = append(d.constants, c), i
	}
	return &d.constants[i]
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// add adds a layer and returns its first output.
func (b *builder) add(l layer) value {
	b.layers = append(b.layers, l)
	return value{len(b.layers) - 1, len(l.in)}
}

// op adds a layer with one output.
func (b *builder) op(op, name string, e element, in []value, data ...attribute) value {
	return b.add(layer{name: name, op: op, data: data, in: in, out: []output{{element: e}}})
}

// float adds a layer of floats.
func (b *builder) float(op, name string, in []value, data ...attribute) value {
	return b.op(op, name, f32, in, data...)
}

var numpy = attribute{"auto_broadcast", "numpy"}

// binary adds an elementwise operation of two floats.
func (b *builder) binary(op, name string, x, y value) value {
	return b.float(op, name, []value{x, y}, numpy)
}

// convert adds a conversion of elements.
func (b *builder) convert(name string, x value, to element) value {
	return b.op("Convert", name, to, []value{x}, attribute{"destination_type", string(to)})
}

// decompressed widens stored weights to floats.
func (b *builder) decompressed(name string, x value) value {
	y := b.convert(name, x, f32)
	b.layers[y.layer].decompression = true
	return y
}

// parameter adds an input of the model.
func (b *builder) parameter(name string, e element, shape string) value {
	return b.add(layer{name: name, op: "Parameter", data: []attribute{{"shape", shape}, {"element_type", string(e)}},
		out: []output{{e, name}}})
}

// result adds an output of the model, and names its tensor.
func (b *builder) result(name string, x value) {
	l := &b.layers[x.layer]
	l.out[x.port-len(l.in)].name = name
	b.add(layer{name: name + "/sink_port_0", op: "Result", in: []value{x}})
}

// alignment of constants in the data file.
const alignment = 64

// constant adds a layer once; its data are written later.
func (b *builder) constant(name string, e element, dims []int64, write func(io.Writer) error) value {
	if v, known := b.known[name]; known {
		return v
	}
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	c := b.place(name, (n*e.bits()+7)/8, write)
	v := b.add(layer{name: name, op: "Const", out: []output{{element: e}}, data: []attribute{
		{"element_type", string(e)}, {"shape", shapeText(dims)}, {"offset", strconv.FormatInt(c.offset, 10)}, {"size",
			strconv.FormatInt(c.size, 10)},
	}})
	b.known[name] = v
	return v
}

func shapeText(dims []int64) string {
	var list []string
	for _, d := range dims {
		list = append(list, strconv.FormatInt(d, 10))
	}
	return strings.Join(list, ", ")
}

// scalar is a float.
func (b *builder) scalar(x float32) value {
	return b.constant(fmt.Sprintf("float/%v", x), f32, nil,
		folder.Whole(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))))
}

// int is a scalar integer.
func (b *builder) int(x int64) value {
	return b.constant(fmt.Sprintf("int/%d", x), i64, nil,
		folder.Whole(binary.LittleEndian.AppendUint64(nil, uint64(x))))
}

// ints is a vector of integers.
func (b *builder) ints(list ...int64) value {
	var data []byte
	for _, x := range list {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
	}
	return b.constant("ints/"+shapeText(list), i64, []int64{int64(len(list))}, folder.Whole(data))
}

// words is a vector of 32-bit integers.
func (b *builder) words(name string, list []int32) value {
	var data []byte
	for _, x := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(x))
	}
	return b.constant(name, i32, []int64{int64(len(list))}, folder.Whole(data))
}

// gather selects elements along an axis.
func (b *builder) gather(name string, e element, x, indices, axis value) value {
	return b.op("Gather", name, e, []value{x, indices, axis}, attribute{"batch_dims", "0"})
}

// reshape gives x new dimensions; if special, 0 means the dimension of x.
func (b *builder) reshape(name string, x, dims value, special bool) value {
	return b.float("Reshape", name, []value{x, dims}, attribute{"special_zero", strconv.FormatBool(special)})
}

func (b *builder) transpose(name string, x value, order ...int64) value {
	return b.float("Transpose", name, []value{x, b.ints(order...)})
}

func (b *builder) concat(name string, e element, axis int, in ...value) value {
	return b.op("Concat", name, e, in, attribute{"axis", strconv.Itoa(axis)})
}

// slice selects elements from … to along an axis.
func (b *builder) slice(name string, x value, from, to, axis int) value {
	return b.float("Slice", name, []value{x, b.ints(int64(from)), b.ints(int64(to)), b.ints(1), b.ints(int64(axis))})
}

// writeData writes the data file: constants in their order, zeros between them.
func (d *data) writeData(w io.Writer) error {
	at := int64(0)
	for _, c := range d.constants {
		if _, err := w.Write(make([]byte, c.offset-at)); err != nil { // less than alignment
			return err
		}
		to := &folder.Counting{To: w}
		if err := c.write(to); err != nil {
			return err
		}
		if to.N != c.size {
			return fmt.Errorf("constant %q: %d bytes were written in the place of %d", c.name, to.N, c.size)
		}
		at = c.offset + c.size
	}
	return nil
}
