package onnx

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/internal/version"
)

// Field numbers of onnx.proto, of the messages that are written and read.
const (
	modelIRVersion, modelProducer, modelProducerVersion, modelGraph, modelOpset, modelMetadata = 1, 2, 3, 7, 8, 14
	opsetDomain, opsetVersion                                                                  = 1, 2
	graphNode, graphName, graphTensor, graphInput, graphOutput                                 = 1, 2, 5, 11, 12
	nodeIn, nodeOut, nodeName, nodeOp, nodeAttribute, nodeDomain                               = 1, 2, 3, 4, 5, 7
	attributeName, attributeFloat, attributeInt, attributeText, attributeGraph                 = 1, 2, 3, 4, 6
	attributeInts, attributeKind                                                               = 8, 20
	tensorDims, tensorKind, tensorName, tensorRaw, tensorExternal, tensorLocation              = 1, 2, 8, 9, 13, 14
	pairKey, pairValue                                                                         = 1, 2
	valueName, valueType, typeTensor, typeKind, typeShape, shapeDim, dimValue, dimName         = 1, 2, 1, 1, 2, 1, 1, 2
)

// irVersion is the IR version of ONNX 1.16, the first with opset 21.
const irVersion = 10

// The kinds of attributes, AttributeProto.AttributeType.
const floatAttribute, intAttribute, textAttribute, graphAttribute, intsAttribute = 1, 2, 3, 5, 7

// message is a protobuf message that is being made. Numbers of value 0 and empty strings are written too.
type message []byte

func (m message) number(field protowire.Number, x int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(x))
}

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m message) text(field protowire.Number, s string) message { return m.bytes(field, []byte(s)) }

// encode is the model as a ModelProto, with the data file under a name.
func (g *graph) encode(dataFile string) []byte {
	m := message(nil).number(modelIRVersion, irVersion).text(modelProducer, "lowpack").text(modelProducerVersion,
		version.Version)
	m = m.bytes(modelGraph, g.body(dataFile))
	for _, o := range g.opsets {
		m = m.bytes(modelOpset, message(nil).text(opsetDomain, o.domain).number(opsetVersion, o.version))
	}
	for _, p := range g.metadata {
		m = m.bytes(modelMetadata, pair(p[0], p[1]))
	}
	return m
}

// body is the GraphProto.
func (g *graph) body(dataFile string) (m message) {
	for i := range g.nodes {
		m = m.bytes(graphNode, g.nodes[i].encode())
	}
	m = m.text(graphName, "model")
	for i := range g.tensors {
		m = m.bytes(graphTensor, g.tensors[i].encode(dataFile))
	}
	for i := range g.inputs {
		m = m.bytes(graphInput, g.inputs[i].encode())
	}
	for i := range g.outputs {
		m = m.bytes(graphOutput, g.outputs[i].encode())
	}
	return m
}

// pair is a StringStringEntryProto.
func pair(key, value string) message { return message(nil).text(pairKey, key).text(pairValue, value) }

func (n *node) encode() (m message) {
	for _, s := range n.in {
		m = m.text(nodeIn, s)
	}
	for _, s := range n.out {
		m = m.text(nodeOut, s)
	}
	m = m.text(nodeName, n.out[0]).text(nodeOp, n.op)
	for _, a := range n.attributes {
		m = m.bytes(nodeAttribute, a.encode())
	}
	return m.text(nodeDomain, n.domain)
}

func (a attribute) encode() message {
	m := message(nil).text(attributeName, a.name)
	switch x := a.value.(type) {
	case float32:
		m = protowire.AppendFixed32(protowire.AppendTag(m, attributeFloat, protowire.Fixed32Type), math.Float32bits(x))
		return m.number(attributeKind, floatAttribute)
	case int64:
		return m.number(attributeInt, x).number(attributeKind, intAttribute)
	case string:
		return m.text(attributeText, x).number(attributeKind, textAttribute)
	case []int64:
		for _, n := range x {
			m = m.number(attributeInts, n)
		}
		return m.number(attributeKind, intsAttribute)
	case *graph:
		return m.bytes(attributeGraph, x.body("")).number(attributeKind, graphAttribute)
	}
	panic("onnx: an attribute of another type") // of this package's own making
}

func (t *tensor) encode(dataFile string) (m message) {
	for _, d := range t.dims {
		m = m.number(tensorDims, d)
	}
	m = m.number(tensorKind, int64(t.kind)).text(tensorName, t.name)
	if t.inline != nil {
		return m.bytes(tensorRaw, t.inline)
	}
	m = m.bytes(tensorExternal, pair("location", dataFile))
	m = m.bytes(tensorExternal, pair("offset", strconv.FormatInt(t.offset, 10)))
	m = m.bytes(tensorExternal, pair("length", strconv.FormatInt(t.bytes(), 10)))
	return m.number(tensorLocation, 1)
}

func (v *value) encode() message {
	var shape message
	for _, d := range v.dims {
		if name, ok := d.(string); ok {
			shape = shape.bytes(shapeDim, message(nil).text(dimName, name))
		} else {
			shape = shape.bytes(shapeDim, message(nil).number(dimValue, d.(int64)))
		}
	}
	kind := message(nil).number(typeKind, int64(v.kind)).bytes(typeShape, shape)
	return message(nil).text(valueName, v.name).bytes(valueType, message(nil).bytes(typeTensor, kind))
}
