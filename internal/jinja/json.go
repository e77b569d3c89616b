package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/marked"
)

// FromJSON turns parsed JSON into a value that came with the conversation. Objects keep the order of their keys.
func FromJSON(v *jsonread.Value) Value {
	switch v.Kind {
	case jsonread.Bool:
		return v.Bool
	case jsonread.Number:
		if n, err := strconv.Atoi(v.Text); err == nil {
			return n
		}
		f, _ := v.Float()
		return f
	case jsonread.String:
		return NewInput(v.Text)
	case jsonread.Array:
		items := make([]Value, len(v.Items))
		for i := range v.Items {
			items[i] = FromJSON(&v.Items[i])
		}
		return NewList(items)
	case jsonread.Object:
		d := &Dict{}
		for i := range v.Members {
			d.Set(NewInput(v.Members[i].Key), FromJSON(&v.Members[i].Value))
		}
		return d
	}
	return nil
}

// jsonWriter writes JSON as Python's json.dumps does with ensure_ascii=False.
type jsonWriter struct {
	out         marked.Builder
	indent      string // one level; "" with flat
	flat        bool
	item, key   string // separators
	sorted      bool
	ascii       bool
	r           *run
	unsupported error
}

func tojsonFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("tojson", args, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	if n, ok := integer(p[0]); ok && len(args.positional) > 0 && n > 1 {
		p[0], p[1] = Undefined{}, n // tojson(4), as in Jinja itself
	}
	w := &jsonWriter{r: r, flat: true, item: ", ", key: ": ", ascii: truthy(p[0]), sorted: truthy(p[3])}
	switch x := p[1].(type) {
	case int:
		if x < 0 || x > 64 {
			return nil, r.fail("tojson with indent %d", x)
		}
		w.flat, w.item, w.indent = false, ",", strings.Repeat(" ", x)
	default:
		if indent, ok := asString(x); ok {
			w.flat, w.item, w.indent = false, ",", indent
		}
	}
	if l, ok := p[2].(*List); ok && len(l.Items) == 2 {
		w.item, w.key = str(l.Items[0]), str(l.Items[1])
	}
	w.value(v, 0)
	if w.unsupported != nil {
		return nil, w.unsupported
	}
	return textValue(w.out.Text()), nil
}

func (w *jsonWriter) value(v Value, level int) {
	if w.unsupported == nil {
		w.unsupported = w.r.pay(len(w.indent)*(level+1) + len(w.item) + 1)
	}
	if w.unsupported != nil {
		return
	}
	switch x := v.(type) {
	case nil:
		w.raw("null")
	case bool:
		w.raw(strconv.FormatBool(x))
	case int:
		w.raw(strconv.Itoa(x))
	case float64:
		w.float(x)
	case string, marked.Text:
		w.text(printed(x))
	case *List:
		w.list("[", "]", len(x.Items), level, func(i int) { w.value(x.Items[i], level+1) })
	case *Dict:
		order := w.order(x)
		w.list("{", "}", len(order), level, func(i int) {
			w.name(x.keys[order[i]])
			w.raw(w.key)
			w.value(x.values[order[i]], level+1)
		})
	default:
		w.unsupported = w.r.fail("%s cannot be written as JSON", typeName(v))
	}
}

// order of the keys of a dict.
func (w *jsonWriter) order(d *Dict) []int {
	out := make([]int, len(d.keys))
	for i := range out {
		out[i] = i
	}
	if w.sorted {
		slices.SortFunc(out, func(a, b int) int { return strings.Compare(str(d.keys[a]), str(d.keys[b])) })
	}
	return out
}

// name writes a key, which JSON wants to be a string.
func (w *jsonWriter) name(k Value) {
	if t, ok := AsText(k); ok {
		w.text(t)
		return
	}
	w.raw(`"`)
	w.value(k, 0)
	w.raw(`"`)
}

func (w *jsonWriter) list(begin, end string, n, level int, each func(i int)) {
	w.raw(begin)
	for i := range n {
		if i > 0 {
			w.raw(w.item)
		}
		w.newline(level + 1)
		each(i)
	}
	if n > 0 {
		w.newline(level)
	}
	w.raw(end)
}

func (w *jsonWriter) newline(level int) {
	if !w.flat {
		w.raw("\n")
		for range level {
			w.raw(w.indent)
		}
	}
}

func (w *jsonWriter) float(f float64) {
	switch {
	case math.IsNaN(f):
		w.raw("NaN")
	case math.IsInf(f, 0):
		w.raw(map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0])
	default:
		w.raw(floatText(f))
	}
}

// raw writes what is not part of any string.
func (w *jsonWriter) raw(s string) { w.out.AddString(s, false) }

func (w *jsonWriter) text(t marked.Text) {
	w.raw(`"`)
	w.out.Add(t.Map(w.escaped))
	w.raw(`"`)
}

func (w *jsonWriter) escaped(s string) string {
	var out strings.Builder
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case strings.ContainsRune("\b\f\n\r\t", c):
			out.WriteString(map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}[c])
		case c < 0x20 || w.ascii && c >= 0x7f && c < 0x10000:
			out.WriteString(`\u` + hex(c, 4))
		case w.ascii && c >= utf8.RuneSelf:
			c -= 0x10000
			out.WriteString(`\u` + hex(0xd800+c>>10, 4) + `\u` + hex(0xdc00+c&0x3ff, 4))
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}
