package grammar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// CallForm is the syntax of a model's tool calls: First, call, Close, then Open, call, Close for each further call,
// then End. A call is {"name": …, Key: …}.
type CallForm struct {
	First, Open, Close, End string
	Key                     string
	Several                 bool // more than one call is allowed
}

// Function is a function that a text may call.
type Function struct {
	Name       string
	Parameters []byte // JSON schema of an object; nil = no parameters
	Free       bool   // accept any object
}

// Calls returns the grammar of texts that consist of one or more calls of the functions.
func Calls(form CallForm, functions []Function) (*Grammar, error) {
	b := newBuilder()
	all, err := b.calls(form, functions)
	if err != nil {
		return nil, err
	}
	return b.finish(all)
}

// Arguments returns the grammar of the arguments of a function alone.
func Arguments(f Function) (*Grammar, error) {
	b := newBuilder()
	all, err := b.arguments(f)
	if err != nil {
		return nil, fmt.Errorf("parameters of %.80q: %w", f.Name, err)
	}
	return b.finish(all)
}

// calls matches the calls with all delimiters.
func (b *builder) calls(form CallForm, functions []Function) (part, error) {
	one := func() (part, error) {
		return b.rule("call", func() (part, error) { return b.anyCall(form.Key, functions) })
	}
	first, err := one()
	if err != nil {
		return part{}, err
	}
	all := b.then(b.text(form.First), first, b.text(form.Close))
	if form.Several {
		next, err := one()
		if err != nil {
			return part{}, err
		}
		all = b.then(all, b.many(b.then(b.text(form.Open), next, b.text(form.Close))))
	}
	return b.then(all, b.text(form.End)), nil
}

// Mixed returns the grammar of texts in which every call is a valid call of one of the functions, and other text is
// free. opening starts a call; "" = a call is a text that starts with a brace.
func Mixed(form CallForm, opening string, functions []Function) (*Grammar, error) {
	b := newBuilder()
	several := form.Several
	form.First, form.Open = strings.TrimPrefix(form.First, opening), strings.TrimPrefix(form.Open, opening)
	form.Several = several && form.End != "" // a list; otherwise each call starts anew
	all, err := b.calls(form, functions)
	if err != nil {
		return nil, err
	}
	if opening == "" {
		blank := b.either(b.bytes(' ', ' '), b.bytes('\t', '\t'), b.bytes('\n', '\n'), b.bytes('\r', '\r'))
		other := b.either(b.bytes(0, 8), b.bytes(11, 12), b.bytes(14, 31), b.bytes('!', '{'-1), b.bytes('{'+1, 255))
		return b.finish(b.then(b.many(blank), b.maybe(b.either(all, b.then(other, b.many(b.bytes(0, 255)))))))
	}
	p := b.until(opening)
	b.link(p.out, all.in)
	after := b.until(opening)
	b.link(all.out, after.in)
	if several {
		b.link(after.out, all.in)
	} else { // the rest is not parsed
		b.link(after.out, after.in)
	}
	end := b.node()
	for _, n := range append(b.idle(p, len(opening)), b.idle(after, len(opening))...) {
		b.link(n, end)
	}
	return b.finish(part{p.in, end})
}

// until matches any text up to and including the first occurrence of word (Knuth-Morris-Pratt): node in+i means that i
// bytes of word were read.
func (b *builder) until(word string) part {
	p := part{in: b.node()}
	for range len(word) {
		b.node()
	}
	p.out = p.in + int32(len(word))
	for i := range len(word) {
		for c := range 256 {
			text := word[:i] + string([]byte{byte(c)})
			n := len(text)
			for !strings.HasSuffix(text, word[:min(n, len(word))]) || n > len(word) {
				n--
			}
			edges, to := b.nodes[p.in+int32(i)].edges, p.in+int32(n)
			if last := len(edges) - 1; last >= 0 && edges[last].to == to {
				edges[last].high++
			} else {
				b.nodes[p.in+int32(i)].edges = append(edges, edge{byte(c), byte(c), to})
			}
		}
	}
	return p
}

// idle returns the nodes of until where the word is incomplete.
func (b *builder) idle(p part, n int) (list []int32) {
	for i := range n {
		list = append(list, p.in+int32(i))
	}
	return list
}

// anyCall matches a call of one of the functions. Rules are per function, since schemas have parts of the same name.
func (b *builder) anyCall(key string, functions []Function) (part, error) {
	rules := b.rules
	defer func() { b.rules = rules }()
	parts := make([]part, len(functions))
	for i, f := range functions {
		b.rules = map[string]int32{}
		arguments, err := b.arguments(f)
		if err != nil {
			return part{}, fmt.Errorf("parameters of %.80q: %w", f.Name, err)
		}
		parts[i] = b.then(b.text(`{"name"`), b.colon(), b.text(quote(f.Name)), b.comma(), b.text(quote(key)), b.colon(),
			arguments, b.text("}"))
		if err := b.check(); err != nil {
			return part{}, err
		}
	}
	return b.either(parts...), nil
}

// arguments matches the arguments of a function.
func (b *builder) arguments(f Function) (part, error) {
	parameters := f.Parameters
	if f.Free {
		parameters = []byte(`{"type": "object"}`)
	}
	if parameters == nil || string(parameters) == "null" {
		return b.text("{}"), nil
	}
	root, err := jsonread.Parse(parameters, maxSchema)
	if err != nil {
		return part{}, err
	}
	if kind, _ := root.Get("type").Str(); kind != "object" {
		return part{}, errors.New(`want a schema of "type": "object"`)
	}
	s := &schema{builder: b, root: root}
	return s.value(root, "#")
}
