package jinja

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/lowpack/lowpack/internal/marked"
)

// Value is what an expression gives: Undefined, nil (none), bool, int, float64, string or Text, *List, *Dict,
// *namespace or *function.
type Value any

// Undefined is the value of a name or key that does not exist. It prints as nothing and counts as false; to look into
// it is an error.
type Undefined struct{ Name string }

// List is a list or a tuple. Templates cannot change one.
type List struct {
	Items []Value
	Tuple bool
	shown string // how a range prints; "" for others
	size
}

// Dict keeps the order of its keys.
type Dict struct {
	keys   []Value
	values []Value
	at     map[any]int
	size
}

// size of a list or dict with everything in it, each part counted as often as it occurs: what walking over it costs. A
// template that nests a list into itself again and again grows it exponentially, in memory that hardly grows.
type size struct {
	weight, depth int
	input         bool // something in it came with the conversation
}

const (
	itemWeight = 64      // bytes of memory, roughly
	maxWeight  = 1 << 29 // far above maxWork; keeps sums of weights far from overflow
	maxNesting = 100
)

func (s *size) add(v Value) {
	inner := sizeOf(v)
	s.weight = min(s.weight+inner.weight+itemWeight, maxWeight)
	s.depth = max(s.depth, inner.depth+1)
	s.input = s.input || inner.input
}

func sizeOf(v Value) size {
	switch x := v.(type) {
	case string:
		return size{weight: len(x)}
	case marked.Text:
		return size{weight: 2 * len(x.S), input: true}
	case *List:
		return x.size
	case *Dict:
		return x.size
	}
	return size{weight: 1}
}

// NewList returns a list of items.
func NewList(items []Value) *List {
	l := &List{Items: items}
	for _, item := range items {
		l.add(item)
	}
	return l
}

// namespace is the one thing whose attributes a template can set.
type namespace struct{ Dict }

// function is something that can be called.
type function struct {
	name string
	call func(r *run, args arguments) (Value, error)
}

// Set sets a key.
func (d *Dict) Set(key, value Value) {
	k, ok := hashable(key)
	if !ok {
		return
	}
	if i, known := d.at[k]; known {
		d.values[i] = value
		d.add(value)
		return
	}
	if d.at == nil {
		d.at = map[any]int{}
	}
	d.at[k] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	d.add(key)
	d.add(value)
}

// Get looks a key up.
func (d *Dict) Get(key Value) (Value, bool) {
	k, ok := hashable(key)
	if !ok {
		return nil, false
	}
	i, ok := d.at[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// All gives the keys and values, in order.
func (d *Dict) All() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for i, k := range d.keys {
			if !yield(k, d.values[i]) {
				return
			}
		}
	}
}

// hashable returns the form of a key in which equal keys are equal: 1, 1.0 and true are one key.
func hashable(key Value) (any, bool) {
	switch k := key.(type) {
	case nil, string, int:
		return k, true
	case marked.Text:
		return k.S, true
	case bool:
		return toInt(k), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int(k), true
		}
		return k, true
	}
	return nil, false
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Equal compares as == does in a template.
func Equal(a, b Value) bool { return equal(a, b) }

// Trim strips white space as Python does.
func Trim(s string) string { return strings.TrimFunc(s, isSpace) }

// TrimRight strips it from the end.
func TrimRight(s string) string { return strings.TrimRightFunc(s, isSpace) }

// isSpace is white space as Python strips it.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func truthy(v Value) bool {
	switch x := v.(type) {
	case Undefined, nil:
		return false
	case bool:
		return x
	case int:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case marked.Text:
		return x.S != ""
	case *List:
		return len(x.Items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// typeName is what Python calls the type.
func typeName(v Value) string {
	switch x := v.(type) {
	case Undefined:
		return "undefined"
	case nil:
		return "none"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case string, marked.Text:
		return "str"
	case *List:
		if x.Tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "namespace"
	}
	return "function"
}

// str is the text of a value when it is printed.
func str(v Value) string {
	switch x := v.(type) {
	case Undefined:
		return ""
	case string:
		return x
	case marked.Text:
		return x.S
	}
	var out strings.Builder
	repr(&out, v)
	return out.String()
}

// repr writes a value as Python source. Lists and dicts cannot hold themselves, so this ends; callers pay its size
// first.
func repr(out *strings.Builder, v Value) {
	switch x := v.(type) {
	case Undefined:
		out.WriteString("Undefined")
	case nil:
		out.WriteString("None")
	case bool:
		if x {
			out.WriteString("True")
		} else {
			out.WriteString("False")
		}
	case int:
		out.WriteString(strconv.Itoa(x))
	case float64:
		out.WriteString(floatText(x))
	case string:
		reprString(out, x)
	case marked.Text:
		reprString(out, x.S)
	case *List:
		reprList(out, x)
	case *Dict:
		out.WriteByte('{')
		for i := range x.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			repr(out, x.keys[i])
			out.WriteString(": ")
			repr(out, x.values[i])
		}
		out.WriteByte('}')
	default:
		out.WriteString("<" + typeName(v) + ">")
	}
}

func reprList(out *strings.Builder, l *List) {
	if l.shown != "" {
		out.WriteString(l.shown)
		return
	}
	brackets := "[]"
	if l.Tuple {
		brackets = "()"
	}
	out.WriteByte(brackets[0])
	for i, item := range l.Items {
		if i > 0 {
			out.WriteString(", ")
		}
		repr(out, item)
	}
	if l.Tuple && len(l.Items) == 1 {
		out.WriteByte(',')
	}
	out.WriteByte(brackets[1])
}

// reprString quotes as Python does: with ' unless the text has ' and no ".
func reprString(out *strings.Builder, s string) {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 0x100:
			out.WriteString(`\x` + hex(r, 2))
		case r < 0x10000:
			out.WriteString(`\u` + hex(r, 4))
		default:
			out.WriteString(`\U` + hex(r, 8))
		}
	}
	out.WriteRune(quote)
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(s)) + s
}

// floatText is the shortest text that reads back as the same number, as Python writes it.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

// equal compares as == does.
func equal(a, b Value) bool {
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return x == y
		}
	}
	if x, y, ok := numbers(a, b); ok {
		return x == y
	}
	if x, ok := asString(a); ok {
		y, ok := asString(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case *List:
		y, ok := b.(*List)
		if !ok || len(x.Items) != len(y.Items) || x.Tuple != y.Tuple {
			return false
		}
		for i := range x.Items {
			if !equal(x.Items[i], y.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			if v, found := y.Get(k); !found || !equal(x.values[i], v) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case Undefined, *List, *Dict:
		return false
	}
	return a == b
}

// numbers returns two numbers as floats; ok is false when one of them is none.
func numbers(a, b Value) (x, y float64, ok bool) {
	x, ok1 := number(a)
	y, ok2 := number(b)
	return x, y, ok1 && ok2
}

func number(v Value) (float64, bool) {
	switch x := v.(type) {
	case bool:
		return float64(toInt(x)), true
	case int:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// integer returns an int or bool as an int.
func integer(v Value) (int, bool) {
	switch x := v.(type) {
	case bool:
		return toInt(x), true
	case int:
		return x, true
	}
	return 0, false
}
