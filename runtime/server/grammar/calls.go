package grammar

import (
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// CallForm is how a model writes calls of functions: First, a call, Close, and for each further call Open, the call, Close;
// then End. A call is {"name": …, Key: …}.
type CallForm struct {
	First, Open, Close, End string
	Key                     string
	Several                 bool // more calls than one
}

// Function is what can be called.
type Function struct {
	Name       string
	Parameters []byte // a schema of an object; nil = it has none
}

// Calls is the set of texts that call some of the functions, at least once.
func Calls(form CallForm, functions []Function) (*Grammar, error) {
	b := newBuilder()
	one := func() (part, error) {
		return b.rule("call", func() (part, error) { return b.anyCall(form.Key, functions) })
	}
	first, err := one()
	if err != nil {
		return nil, err
	}
	all := b.then(b.text(form.First), first, b.text(form.Close))
	if form.Several {
		next, err := one()
		if err != nil {
			return nil, err
		}
		all = b.then(all, b.many(b.then(b.text(form.Open), next, b.text(form.Close))))
	}
	return b.finish(b.then(all, b.text(form.End)))
}

// anyCall is a call of one of the functions. Each has rules of its own: schemas have parts of the same name.
func (b *builder) anyCall(key string, functions []Function) (part, error) {
	rules := b.rules
	defer func() { b.rules = rules }()
	parts := make([]part, len(functions))
	for i, f := range functions {
		b.rules = map[string]int32{}
		arguments, err := b.arguments(f.Parameters)
		if err != nil {
			return part{}, fmt.Errorf("parameters of %.80q: %w", f.Name, err)
		}
		parts[i] = b.then(b.text(`{"name"`), b.colon(), b.text(quote(f.Name)), b.comma(), b.text(quote(key)), b.colon(), arguments, b.text("}"))
	}
	return b.either(parts...), nil
}

// arguments is an object of a schema.
func (b *builder) arguments(parameters []byte) (part, error) {
	if parameters == nil || string(parameters) == "null" {
		return b.text("{}"), nil
	}
	root, err := jsonread.Parse(parameters, mostSchema)
	if err != nil {
		return part{}, err
	}
	if kind, _ := root.Get("type").Str(); kind != "object" {
		return part{}, errors.New(`want a schema of "type": "object"`)
	}
	s := &schema{builder: b, root: root}
	return s.value(root, "#")
}
