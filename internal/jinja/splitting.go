package jinja

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/marked"
)

// texts makes a list of texts.
func (r *run) texts(parts []marked.Text) (Value, error) {
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = textValue(p)
	}
	return r.list(out)
}

// splitArgs reads sep and maxsplit; sep "" means white space, a negative limit none.
func (r *run) splitArgs(name string, args arguments) (sep string, limit int, err error) {
	p, err := r.params(name, args, "sep", "maxsplit")
	if err != nil {
		return "", 0, err
	}
	limit = -1
	if _, absent := p[1].(Undefined); !absent {
		n, ok := integer(p[1])
		if !ok {
			return "", 0, r.fail("maxsplit is %s", typeName(p[1]))
		}
		limit = n
	}
	if _, absent := p[0].(Undefined); absent || p[0] == nil {
		return "", limit, nil
	}
	if sep, _ = asString(p[0]); sep == "" {
		return "", 0, r.fail("%s needs a separator that is a string and not empty", name)
	}
	return sep, limit, nil
}

func split(r *run, t marked.Text, args arguments) (Value, error) {
	sep, limit, err := r.splitArgs("split", args)
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return r.texts(fields(t, limit))
	}
	var parts []marked.Text
	for ; limit != 0; limit-- {
		front := upTo(t, sep)
		if len(front.S) == len(t.S) {
			break
		}
		parts = append(parts, front)
		t = t.Slice(len(front.S)+len(sep), len(t.S))
		if err := r.pay(itemWeight); err != nil {
			return nil, err
		}
	}
	return r.texts(append(parts, t))
}

// fields splits at white space, at most limit times when that is not negative.
func fields(t marked.Text, limit int) (out []marked.Text) {
	for {
		t = t.Slice(len(t.S)-len(strings.TrimLeftFunc(t.S, isSpace)), len(t.S))
		i := strings.IndexFunc(t.S, isSpace)
		switch {
		case t.S == "":
			return out
		case i < 0:
			return append(out, t)
		case limit >= 0 && len(out) == limit:
			return append(out, t)
		}
		out = append(out, t.Slice(0, i))
		t = t.Slice(i, len(t.S))
	}
}

func rsplit(r *run, t marked.Text, args arguments) (Value, error) {
	sep, limit, err := r.splitArgs("rsplit", args)
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		return split(r, t, args)
	}
	if sep == "" {
		return nil, r.unsupported("rsplit with a limit and without a separator")
	}
	var parts []marked.Text
	for range limit {
		i := strings.LastIndex(t.S, sep)
		if i < 0 {
			break
		}
		parts = append(parts, t.Slice(i+len(sep), len(t.S)))
		t = t.Slice(0, i)
		if err := r.pay(itemWeight + len(t.S)); err != nil {
			return nil, err
		}
	}
	parts = append(parts, t)
	slices.Reverse(parts)
	return r.texts(parts)
}

// isLineEnd reports whether Python's splitlines takes c for the end of a line, besides \r\n.
func isLineEnd(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

func splitLines(r *run, t marked.Text, args arguments) (Value, error) {
	p, err := r.params("splitlines", args, "keepends")
	if err != nil {
		return nil, err
	}
	var lines []marked.Text
	for t.S != "" {
		line := strings.IndexFunc(t.S, isLineEnd)
		end := len(t.S)
		if line < 0 {
			line = end
		} else if end = line + len(char(t, line).S); strings.HasPrefix(t.S[line:], "\r\n") {
			end++
		}
		if truthy(p[0]) {
			line = end
		}
		lines = append(lines, t.Slice(0, line))
		t = t.Slice(end, len(t.S))
		if err := r.pay(itemWeight); err != nil {
			return nil, err
		}
	}
	return r.texts(lines)
}

func replaceMethod(r *run, t marked.Text, args arguments) (Value, error) {
	p, err := r.params("replace", args, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	old, ok1 := asString(p[0])
	by, ok2 := AsText(p[1])
	if !ok1 || !ok2 {
		return nil, r.fail("replace needs two strings")
	}
	limit := -1
	if n, ok := integer(p[2]); ok {
		limit = n
	}
	return r.replaced(t, old, by, limit)
}

// replaced pays for the result before it makes it.
func (r *run) replaced(t marked.Text, old string, by marked.Text, limit int) (Value, error) {
	n := strings.Count(t.S, old)
	if limit >= 0 {
		n = min(n, limit)
	}
	if err := r.pay(2 * (len(t.S) + n*max(0, len(by.S)-len(old)))); err != nil {
		return nil, err
	}
	if t.Input == "" && by.Input == "" {
		return strings.Replace(t.S, old, by.S, limit), nil
	}
	var out marked.Builder
	for range n {
		front := upTo(t, old)
		if old == "" && out.Len() > 0 { // between characters
			front = char(t, 0)
		}
		out.Add(front)
		out.Add(by)
		t = t.Slice(len(front.S)+len(old), len(t.S))
	}
	out.Add(t)
	return textValue(out.Text()), nil
}

// joinWith is sep.join(list).
func joinWith(r *run, sep marked.Text, args arguments) (Value, error) {
	p, err := r.params("join", args, "list")
	if err != nil {
		return nil, err
	}
	items, err := r.items(p[0])
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if _, ok := asString(item); !ok {
			return nil, r.fail("join of a list that holds %s", typeName(item))
		}
	}
	return r.join(items, sep)
}

// join prints items with sep between.
func (r *run) join(items []Value, sep marked.Text) (Value, error) {
	var out marked.Builder
	for i, item := range items {
		if i > 0 {
			out.Add(sep)
		}
		if err := r.pay(2*len(sep.S) + sizeOf(item).weight); err != nil {
			return nil, err
		}
		out.Add(printed(item))
	}
	return textValue(out.Text()), nil
}
