package jinja

import (
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/marked"
)

func (e *filterExpr) eval(r *run, s *scope) (Value, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.filter(v, &e.filterCall, s)
}

// filter applies a filter to a value.
func (r *run) filter(v Value, f *filterCall, s *scope) (Value, error) {
	r.line = f.line
	args, err := r.arguments(&f.args, s)
	if err != nil {
		return nil, err
	}
	return r.filterNamed(f.name, v, args)
}

func (r *run) filterNamed(name string, v Value, args arguments) (Value, error) {
	apply := filters[name]
	if apply == nil {
		return nil, r.unsupported("the filter %.40q", name)
	}
	if err := r.pay(stepWork + sizeOf(v).weight); err != nil {
		return nil, err
	}
	return apply(r, v, args)
}

type filterFunc func(r *run, v Value, args arguments) (Value, error)

var filters map[string]filterFunc

// The map is filled when the program starts, because map and select call back into what uses it.
func init() {
	filters = map[string]filterFunc{
		"abs":        absFilter,
		"attr":       attrFilter,
		"capitalize": textFilter(marked.Text.MapWhole, capitalize),
		"lower":      textFilter(marked.Text.Map, lower),
		"upper":      textFilter(marked.Text.Map, upper),
		"title":      textFilter(marked.Text.MapWhole, titleWords),
		"safe":       textFilter(marked.Text.Map, unchanged),
		"string":     textFilter(marked.Text.Map, unchanged),
		"escape":     textFilter(marked.Text.Map, html.EscapeString),
		"e":          textFilter(marked.Text.Map, html.EscapeString),
		"trim":       trimFilter,
		"default":    defaultFilter,
		"d":          defaultFilter,
		"length":     lengthFilter,
		"count":      lengthFilter,
		"wordcount": func(r *run, v Value, _ arguments) (Value, error) {
			return len(strings.FieldsFunc(str(v), betweenWords)), nil
		},
		"first":      func(r *run, v Value, _ arguments) (Value, error) { return r.end(v, 0) },
		"last":       func(r *run, v Value, _ arguments) (Value, error) { return r.end(v, -1) },
		"float":      floatFilter,
		"int":        intFilter,
		"indent":     indentFilter,
		"items":      itemsFilter,
		"dictsort":   dictsortFilter,
		"join":       joinFilter,
		"list":       listFilter,
		"replace":    replaceFilter,
		"reverse":    reverseFilter,
		"round":      roundFilter,
		"sort":       sortFilter,
		"unique":     uniqueFilter,
		"sum":        sumFilter,
		"min":        extreme(-1),
		"max":        extreme(1),
		"map":        mapFilter,
		"select":     selectFilter(true, false),
		"reject":     selectFilter(false, false),
		"selectattr": selectFilter(true, true),
		"rejectattr": selectFilter(false, true),
		"tojson":     tojsonFilter,
	}
}

func unchanged(s string) string { return s }

// textFilter applies f to a text in one of the ways of Text.
func textFilter(apply func(marked.Text, func(string) string) marked.Text, f func(string) string) filterFunc {
	return func(r *run, v Value, args arguments) (Value, error) {
		if _, err := r.params("the filter", args); err != nil {
			return nil, err
		}
		return r.text(apply(printed(v), f))
	}
}

func trimFilter(r *run, v Value, args arguments) (Value, error) {
	return stringMethods["strip"](r, printed(v), args)
}

func absFilter(r *run, v Value, _ arguments) (Value, error) {
	if n, ok := integer(v); ok && n != math.MinInt {
		return max(n, -n), nil
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	return nil, r.fail("abs of %s", typeName(v))
}

func attrFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("attr", args, "name")
	if err != nil {
		return nil, err
	}
	if _, isDict := v.(*Dict); isDict { // attributes, not keys
		if m := r.method(v, str(p[0])); m != nil {
			return m, nil
		}
		return Undefined{str(p[0])}, nil
	}
	return r.attribute(v, str(p[0]))
}

func defaultFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("default", args, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if _, missing := p[0].(Undefined); missing && len(args.positional) == 0 {
		p[0] = ""
	}
	if _, undefined := v.(Undefined); undefined || truthy(p[1]) && !truthy(v) {
		return p[0], nil
	}
	return v, nil
}

func lengthFilter(r *run, v Value, _ arguments) (Value, error) {
	if s, ok := asString(v); ok {
		return utf8.RuneCountInString(s), nil
	}
	switch x := v.(type) {
	case Undefined:
		return 0, nil
	case *List:
		return len(x.Items), nil
	case *Dict:
		return len(x.keys), nil
	}
	return nil, r.fail("length of %s", typeName(v))
}

// end returns the first or last item.
func (r *run) end(v Value, at int) (Value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return Undefined{"item of an empty list"}, nil
	}
	if at < 0 {
		at += len(items)
	}
	return items[at], nil
}

func floatFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("float", args, "default")
	if err != nil {
		return nil, err
	}
	if f, ok := number(v); ok {
		return f, nil
	}
	if s, ok := asString(v); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f, nil
		}
	}
	if _, absent := p[0].(Undefined); absent {
		return 0.0, nil
	}
	return p[0], nil
}

func intFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("int", args, "default", "base")
	if err != nil {
		return nil, err
	}
	base := 10
	if b, ok := integer(p[1]); ok {
		base = b
	}
	switch x := v.(type) {
	case string, marked.Text:
		text := strings.TrimFunc(str(x), isSpace)
		if base < 2 || base > 36 {
			return nil, r.fail("int with base %d", base)
		}
		if n, err := strconv.ParseInt(text, base, 64); err == nil {
			return int(n), nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1<<62 {
			return int(f), nil
		}
	case float64:
		if math.Abs(x) < 1<<62 {
			return int(x), nil
		}
	default:
		if n, ok := integer(v); ok {
			return n, nil
		}
	}
	if _, absent := p[0].(Undefined); absent {
		return 0, nil
	}
	return p[0], nil
}

func indentFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("indent", args, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	by := marked.Text{S: "    "}
	if t, ok := AsText(p[0]); ok {
		by = t
	} else if n, ok := integer(p[0]); ok {
		if n < 0 || n > 1024 {
			return nil, r.fail("indent by %d", n)
		}
		by.S = strings.Repeat(" ", n)
	}
	text, ok := AsText(v)
	if _, undefined := v.(Undefined); !ok && !undefined {
		return nil, r.fail("indent of %s", typeName(v))
	}
	lines := strings.Count(text.S, "\n") + 1
	if err := r.pay(lines * (2*len(by.S) + itemWeight)); err != nil {
		return nil, err
	}
	var out marked.Builder
	for i := range lines {
		line := upTo(text, "\n")
		if (i > 0 || truthy(p[1])) && (line.S != "" || truthy(p[2])) {
			out.Add(by)
		}
		n := min(len(line.S)+1, len(text.S))
		out.Add(text.Slice(0, n))
		text = text.Slice(n, len(text.S))
	}
	return r.text(out.Text())
}

func betweenWords(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c) }

// upTo returns the text before sep: everything if sep does not occur.
func upTo(t marked.Text, sep string) marked.Text {
	if i := strings.Index(t.S, sep); i >= 0 {
		return t.Slice(0, i)
	}
	return t
}

func itemsFilter(r *run, v Value, _ arguments) (Value, error) {
	switch x := v.(type) {
	case Undefined:
		return r.list(nil)
	case *Dict:
		return r.pairs(x)
	}
	return nil, r.fail("items of %s", typeName(v))
}

func dictsortFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("dictsort", args, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, r.fail("dictsort of %s", typeName(v))
	}
	pairs, err := r.pairs(d)
	if err != nil {
		return nil, err
	}
	at := 0
	if str(p[1]) == "value" {
		at = 1
	}
	return r.sorted(pairs.(*List).Items, truthy(p[2]), truthy(p[0]),
		func(v Value) (Value, error) { return v.(*List).Items[at], nil })
}

func joinFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("join", args, "d", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if _, absent := p[1].(Undefined); !absent {
		if items, err = r.mapped(items, func(v Value) (Value, error) { return r.path(v, str(p[1])) }); err != nil {
			return nil, err
		}
	}
	return r.join(items, printed(p[0]))
}

func listFilter(r *run, v Value, _ arguments) (Value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	return r.list(slices.Clone(items))
}

func replaceFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("replace", args, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	limit := -1
	if n, ok := integer(p[2]); ok {
		limit = n
	}
	return r.replaced(printed(v), str(p[0]), printed(p[1]), limit)
}

func reverseFilter(r *run, v Value, _ arguments) (Value, error) {
	if t, ok := AsText(v); ok {
		step := -1
		return r.slicedText(t, [3]*int{2: &step})
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return r.list(items)
}

func roundFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("round", args, "precision", "method")
	if err != nil {
		return nil, err
	}
	f, ok := number(v)
	digits, _ := integer(p[0])
	if !ok || digits < 0 || digits > 15 {
		return nil, r.fail("round of %s to %d digits", typeName(v), digits)
	}
	if n, isInt := integer(v); isInt && p[1] != "ceil" && p[1] != "floor" {
		return n, nil
	}
	scale := math.Pow(10, float64(digits))
	switch p[1] {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
	return rounded, err
}
