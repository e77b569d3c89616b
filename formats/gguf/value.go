package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kind is the type of a value, by its number in the file.
type Kind uint32

// Kinds of values.
const (
	U8 Kind = iota
	I8
	U16
	I16
	U32
	I32
	F32Value
	Bool
	String
	Array
	U64
	I64
	F64Value
)

var kindNames = [...]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64",
	"i64", "f64"}

// kindSizes are the sizes in bytes; 0 = variable.
var kindSizes = [...]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

func (k Kind) known() bool { return int(k) < len(kindNames) }

func (k Kind) String() string {
	if k.known() {
		return kindNames[k]
	}
	return fmt.Sprintf("type %d", uint32(k))
}

// Value is a number, a bool, a string, or an array of one of these. The zero Value is the u8 0.
type Value struct {
	Kind Kind
	Elem Kind     // element kind of an Array
	bits uint64   // number or bool, as in the file
	text string   // of String
	list []string // of an Array of String
	raw  []byte   // of any other Array, as in the file
}

// Text returns a String.
func (v Value) Text() (string, bool) { return v.text, v.Kind == String }

// Bool returns a Bool.
func (v Value) Bool() (value, ok bool) { return v.bits != 0, v.Kind == Bool }

// Int returns an integer of any width if it fits int64.
func (v Value) Int() (int64, bool) { return integer(v.Kind, v.bits) }

// Float returns a number of any kind.
func (v Value) Float() (float64, bool) { return float(v.Kind, v.bits) }

// Len returns the number of elements of an Array.
func (v Value) Len() int {
	if v.Elem == String {
		return len(v.list)
	}
	if v.Kind != Array {
		return 0
	}
	return len(v.raw) / int(kindSizes[v.Elem])
}

// Texts returns an Array of String. The caller must not modify it.
func (v Value) Texts() ([]string, bool) { return v.list, v.Kind == Array && v.Elem == String }

// Ints returns an Array of integers if all fit int64.
func (v Value) Ints() ([]int64, bool) { return elements(v, integer) }

// Floats returns an Array of numbers.
func (v Value) Floats() ([]float64, bool) { return elements(v, float) }

// Bools returns an Array of Bool.
func (v Value) Bools() ([]bool, bool) {
	if v.Elem != Bool {
		return nil, false
	}
	return elements(v, func(_ Kind, bits uint64) (bool, bool) { return bits != 0, true })
}

func elements[T any](v Value, of func(Kind, uint64) (T, bool)) ([]T, bool) {
	if v.Kind != Array || v.Elem == String {
		return nil, false
	}
	out := make([]T, v.Len())
	size := int(kindSizes[v.Elem])
	for i := range out {
		var ok bool
		if out[i], ok = of(v.Elem, little(v.raw[i*size:][:size])); !ok {
			return nil, false
		}
	}
	return out, true
}

// little decodes 1 to 8 little-endian bytes.
func little(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}

func integer(k Kind, bits uint64) (int64, bool) {
	switch k {
	case U8, U16, U32:
		return int64(bits), true
	case I8:
		return int64(int8(bits)), true
	case I16:
		return int64(int16(bits)), true
	case I32:
		return int64(int32(bits)), true
	case I64:
		return int64(bits), true
	case U64:
		return int64(bits), bits <= math.MaxInt64
	}
	return 0, false
}

func float(k Kind, bits uint64) (float64, bool) {
	switch k {
	case F32Value:
		return float64(math.Float32frombits(uint32(bits))), true
	case F64Value:
		return math.Float64frombits(bits), true
	}
	n, ok := integer(k, bits)
	return float64(n), ok
}

// Constructors of values for Write.

// TextValue returns a String.
func TextValue(s string) Value { return Value{Kind: String, text: s} }

// BoolValue returns a Bool.
func BoolValue(b bool) Value {
	if b {
		return Value{Kind: Bool, bits: 1}
	}
	return Value{Kind: Bool}
}

// U32Value returns a U32.
func U32Value(n uint32) Value { return Value{Kind: U32, bits: uint64(n)} }

// FloatValue returns an F32Value.
func FloatValue(f float32) Value { return Value{Kind: F32Value, bits: uint64(math.Float32bits(f))} }

// TextsValue returns an Array of String. It keeps the slice.
func TextsValue(list []string) Value { return Value{Kind: Array, Elem: String, list: list} }

// I32sValue returns an Array of I32.
func I32sValue(list []int32) Value {
	v := Value{Kind: Array, Elem: I32}
	for _, n := range list {
		v.raw = binary.LittleEndian.AppendUint32(v.raw, uint32(n))
	}
	return v
}

// FloatsValue returns an Array of F32Value.
func FloatsValue(list []float32) Value {
	v := Value{Kind: Array, Elem: F32Value}
	for _, f := range list {
		v.raw = binary.LittleEndian.AppendUint32(v.raw, math.Float32bits(f))
	}
	return v
}

// BoolsValue returns an Array of Bool.
func BoolsValue(list []bool) Value {
	v := Value{Kind: Array, Elem: Bool}
	for _, b := range list {
		v.raw = append(v.raw, byte(BoolValue(b).bits))
	}
	return v
}
