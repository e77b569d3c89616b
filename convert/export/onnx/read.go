package onnx

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/pack"
)

// maxModel bounds model.onnx, which holds no large tensors: a graph of a hundred layers takes about two megabytes.
const maxModel = 16 << 20

// field of a protobuf message: a number or, of strings and messages, bytes.
type field struct {
	id     protowire.Number
	kind   protowire.Type
	number uint64
	bytes  []byte
}

// fields iterates over the fields of a message. Callers check the wire type of a field by as.
func fields(data []byte, each func(f field) error) error {
	for len(data) > 0 {
		id, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return corrupt("%v", protowire.ParseError(n))
		}
		data = data[n:]
		f := field{id: id, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var x uint32
			x, n = protowire.ConsumeFixed32(data)
			f.number = uint64(x)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		default:
			return corrupt("field %d has wire type %d", id, kind)
		}
		if n < 0 {
			return corrupt("field %d: %v", id, protowire.ParseError(n))
		}
		data = data[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: not a model that lowpack export writes: %s", pack.ErrCorrupt, fmt.Sprintf(format, args...))
}

// as demands a wire type.
func (f field) as(kind protowire.Type) error {
	if f.kind != kind {
		return corrupt("field %d has wire type %d instead of %d", f.id, f.kind, kind)
	}
	return nil
}

// text stores a string.
func (f field) text(to *string) error {
	*to = string(f.bytes)
	return f.as(protowire.BytesType)
}

// int stores a number.
func (f field) int(to *int64) error {
	*to = int64(f.number)
	return f.as(protowire.VarintType)
}

// list parses a message and appends the result.
func list[T any](f field, to *[]T, parse func([]byte) (T, error)) error {
	if err := f.as(protowire.BytesType); err != nil {
		return err
	}
	x, err := parse(f.bytes)
	*to = append(*to, x)
	return err
}

// text is a string as an element of a list.
func text(b []byte) (string, error) { return string(b), nil }

// parse reads a model. Fields that Export does not write are errors, so that nothing in a file goes unnoticed.
func parse(data []byte) (*graph, error) {
	g := &graph{}
	err := fields(data, func(f field) error {
		var skip string
		var ir int64
		switch f.id {
		case modelIRVersion:
			if err := f.int(&ir); err != nil || ir != irVersion {
				return corrupt("ir_version %d", ir)
			}
			return nil
		case modelProducer, modelProducerVersion:
			return f.text(&skip)
		case modelGraph:
			if err := f.as(protowire.BytesType); err != nil {
				return err
			}
			return fields(f.bytes, g.field(maxDepth))
		case modelOpset:
			return list(f, &g.opsets, parseOpset)
		case modelMetadata:
			return list(f, &g.metadata, parsePair)
		}
		return corrupt("field %d of the model", f.id)
	})
	return g, err
}

// maxDepth bounds graphs within graphs: a choice within a loop within a loop has three.
const maxDepth = 4

// field reads a field of a GraphProto, whose attributes may be graphs, up to a depth.
func (g *graph) field(depth int) func(f field) error {
	return func(f field) error {
		var name string
		switch f.id {
		case graphNode:
			return list(f, &g.nodes, parseNode(depth))
		case graphName:
			return f.text(&name)
		case graphTensor:
			if depth < maxDepth {
				return corrupt("a tensor of a graph in a node")
			}
			return list(f, &g.tensors, parseTensor)
		case graphInput:
			return list(f, &g.inputs, parseValue)
		case graphOutput:
			return list(f, &g.outputs, parseValue)
		}
		return corrupt("field %d of the graph", f.id)
	}
}

func parseOpset(b []byte) (o opset, err error) {
	return o, fields(b, func(f field) error {
		switch f.id {
		case opsetDomain:
			return f.text(&o.domain)
		case opsetVersion:
			return f.int(&o.version)
		}
		return corrupt("field %d of an opset", f.id)
	})
}

func parsePair(b []byte) (p [2]string, err error) {
	return p, fields(b, func(f field) error {
		if f.id != pairKey && f.id != pairValue {
			return corrupt("field %d of a pair", f.id)
		}
		return f.text(&p[f.id-pairKey])
	})
}

func parseNode(depth int) func(b []byte) (node, error) {
	return func(b []byte) (n node, err error) {
		var name string
		err = fields(b, func(f field) error {
			switch f.id {
			case nodeIn:
				return list(f, &n.in, text)
			case nodeOut:
				return list(f, &n.out, text)
			case nodeName:
				return f.text(&name)
			case nodeOp:
				return f.text(&n.op)
			case nodeAttribute:
				return list(f, &n.attributes, parseAttribute(depth))
			case nodeDomain:
				return f.text(&n.domain)
			}
			return corrupt("field %d of a node", f.id)
		})
		if err == nil && (len(n.out) == 0 || n.out[0] != name) {
			return n, corrupt("node %q is not named like its first output", name)
		}
		return n, err
	}
}

func parseAttribute(depth int) func(b []byte) (attribute, error) {
	return func(b []byte) (a attribute, err error) {
		var kind int64
		err = fields(b, func(f field) error {
			switch f.id {
			case attributeName:
				return f.text(&a.name)
			case attributeKind:
				return f.int(&kind)
			}
			return a.read(f, depth)
		})
		if err == nil && (a.value == nil || kind != attributeKindOf(a.value)) {
			return a, corrupt("attribute %q of type %d", a.name, kind)
		}
		return a, err
	}
}

// read sets the value from a field.
func (a *attribute) read(f field, depth int) error {
	var number int64
	var words string
	switch f.id {
	case attributeFloat:
		a.value = math.Float32frombits(uint32(f.number))
		return f.as(protowire.Fixed32Type)
	case attributeInt:
		err := f.int(&number)
		a.value = number
		return err
	case attributeInts:
		err := f.int(&number)
		numbers, _ := a.value.([]int64)
		a.value = append(numbers, number)
		return err
	case attributeText:
		err := f.text(&words)
		a.value = words
		return err
	case attributeGraph:
		g := &graph{}
		a.value = g
		if depth == 1 {
			return corrupt("more than %d graphs within each other", maxDepth)
		}
		if err := f.as(protowire.BytesType); err != nil {
			return err
		}
		return fields(f.bytes, g.field(depth-1))
	}
	return corrupt("field %d of an attribute", f.id)
}

func attributeKindOf(value any) int64 {
	switch value.(type) {
	case float32:
		return floatAttribute
	case int64:
		return intAttribute
	case string:
		return textAttribute
	case []int64:
		return intsAttribute
	case *graph:
		return graphAttribute
	}
	return 0
}

// parseTensor reads a tensor whose data are either in the model or at an offset of the data file, with the length of
// its shape.
func parseTensor(b []byte) (t tensor, err error) {
	var number, external int64
	var where [][2]string
	err = fields(b, func(f field) error {
		switch f.id {
		case tensorDims:
			err := f.int(&number)
			t.dims = append(t.dims, number)
			return err
		case tensorKind:
			err := f.int(&number)
			t.kind = kind(number)
			return err
		case tensorName:
			return f.text(&t.name)
		case tensorRaw:
			t.inline = f.bytes
			return f.as(protowire.BytesType)
		case tensorExternal:
			return list(f, &where, parsePair)
		case tensorLocation:
			return f.int(&external)
		}
		return corrupt("field %d of a tensor", f.id)
	})
	if err != nil {
		return t, err
	}
	return t, t.place(external == 1, where)
}

// maxElements bounds a tensor, so that sizes do not overflow.
const maxElements = 1 << 48

// place checks size and position of the data.
func (t *tensor) place(external bool, where [][2]string) (err error) {
	elements := int64(1)
	for _, d := range t.dims {
		if d < 1 || d > maxElements/elements {
			return corrupt("tensor %q has shape %v", t.name, t.dims)
		}
		elements *= d
	}
	switch {
	case t.kind.bits() == 0:
		return corrupt("tensor %q has data type %d", t.name, t.kind)
	case external != (t.inline == nil):
		return corrupt("tensor %q has data at no place, or at two", t.name)
	case !external && (int64(len(t.inline)) != t.bytes() || where != nil):
		return corrupt("tensor %q has %d bytes for shape %v", t.name, len(t.inline), t.dims)
	case !external:
		return nil
	}
	if len(where) == 3 {
		t.offset, err = strconv.ParseInt(where[1][1], 10, 64)
	}
	want := [][2]string{{"location", dataFile}, {"offset", strconv.FormatInt(t.offset, 10)},
		{"length", strconv.FormatInt(t.bytes(), 10)}}
	if err != nil || t.offset < 0 || !slices.Equal(where, want) {
		return corrupt("tensor %q has its data at %v", t.name, where)
	}
	return nil
}

func parseValue(b []byte) (v value, err error) {
	var number int64
	return v, fields(b, func(f field) error {
		switch f.id {
		case valueName:
			return f.text(&v.name)
		case valueType:
			return nested(f, typeTensor, func(f field) error {
				return fields(f.bytes, func(f field) error {
					switch f.id {
					case typeKind:
						err := f.int(&number)
						v.kind = kind(number)
						return err
					case typeShape:
						return nested(f, shapeDim, func(f field) error { return list(f, &v.dims, parseDim) })
					}
					return corrupt("field %d of a type", f.id)
				})
			})
		}
		return corrupt("field %d of a value", f.id)
	})
}

// nested iterates over a message whose fields are all messages of one number.
func nested(f field, id protowire.Number, each func(field) error) error {
	if err := f.as(protowire.BytesType); err != nil {
		return err
	}
	return fields(f.bytes, func(f field) error {
		if f.id != id {
			return corrupt("field %d of a type", f.id)
		}
		if err := f.as(protowire.BytesType); err != nil {
			return err
		}
		return each(f)
	})
}

func parseDim(b []byte) (d any, err error) {
	var number int64
	var name string
	return d, fields(b, func(f field) error {
		switch f.id {
		case dimValue:
			err := f.int(&number)
			d = number
			return err
		case dimName:
			err := f.text(&name)
			d = name
			return err
		}
		return corrupt("field %d of a dimension", f.id)
	})
}
