package jinja

import (
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
)

// Limits of one rendering.
const (
	// maxWork bounds everything a template does: a step costs stepWork, a byte or list item that is looked at or copied
	// costs 1 or itemWeight. 2²⁴ is a quarter of a second, and bounds the memory too: whatever is built, up
	// to 16 MiB, has been paid for.
	maxWork   = 1 << 24
	stepWork  = 16
	maxOutput = 1 << 23 // bytes
	maxCalls  = 64      // macros and recursive loops inside each other
)

// run is one rendering.
type run struct {
	out    marked.Builder
	work   int
	calls  int
	now    func() time.Time
	line   int // of the statement that is being executed
	global *scope
}

// Raised is the message with which a template refuses a conversation (raise_exception).
type Raised struct{ Message string }

func (e *Raised) Error() string { return "the chat template refuses the conversation: " + e.Message }

// Render executes the template with the given variables. now is the clock of strftime_now. Errors give the line and
// name unsupported features; one may be a *Raised. The result records which bytes of the text came with the variables
// (NewInput).
func (t *Template) Render(vars *Dict, now func() time.Time) (marked.Text, error) {
	r := &run{now: now}
	global := &scope{vars: map[string]Value{}}
	for name, f := range globals {
		global.vars[name] = f
	}
	for i, k := range vars.keys {
		if name, ok := asString(k); ok {
			global.vars[name] = vars.values[i]
		}
	}
	r.global = global
	if _, err := r.block(t.body, &scope{vars: map[string]Value{}, parent: global}); err != nil {
		var raised *Raised
		if errors.As(err, &raised) {
			return marked.Text{}, raised
		}
		return marked.Text{}, err
	}
	return r.out.Text(), nil
}

// scope holds the variables of a template, a loop body or a macro.
type scope struct {
	vars   map[string]Value
	parent *scope
}

func (s *scope) inner() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v Value) {
	if s.vars == nil {
		s.vars = map[string]Value{}
	}
	s.vars[name] = v
}

func (s *scope) get(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// pay counts work.
func (r *run) pay(n int) error {
	if r.work += n; r.work > maxWork || n < 0 {
		return fmt.Errorf("%w: template, line %d: rendering takes too much work", pack.ErrLimit, r.line)
	}
	return nil
}

// text pays for a text and returns its value.
func (r *run) text(t marked.Text) (Value, error) { return textValue(t), r.pay(len(t.S) + len(t.Input)) }

// list pays for a list and returns it.
func (r *run) list(items []Value) (Value, error) { return r.sized(NewList(items)) }

// sized pays for a list or dict that was just built.
func (r *run) sized(v Value) (Value, error) {
	if sizeOf(v).depth > maxNesting {
		return nil, fmt.Errorf("%w: template, line %d: lists are nested deeper than %d", pack.ErrLimit, r.line,
			maxNesting)
	}
	n := 0
	switch x := v.(type) {
	case *List:
		n = len(x.Items)
	case *Dict:
		n = len(x.keys)
	}
	return v, r.pay(n * itemWeight)
}

// str pays for printing a value and returns the text.
func (r *run) str(v Value) (marked.Text, error) {
	if f, ok := v.(*function); ok { // Python prints an address
		return marked.Text{}, r.unsupported("to print the function %s", f.name)
	}
	if err := r.pay(sizeOf(v).weight); err != nil {
		return marked.Text{}, err
	}
	return printed(v), nil
}

// write adds to the output.
func (r *run) write(t marked.Text) error {
	if r.out.Len()+len(t.S) > maxOutput {
		return fmt.Errorf("%w: template, line %d: more than %d bytes of output", pack.ErrLimit, r.line, maxOutput)
	}
	r.out.Add(t)
	return r.pay(len(t.S) + len(t.Input))
}

// capture returns what body writes instead of writing it.
func (r *run) capture(body func() error) (Value, error) {
	outer := r.out
	r.out = marked.Builder{}
	err := body()
	text := r.out.Text()
	r.out = outer
	return textValue(text), err
}

// fail is an error about what a template does with its values.
func (r *run) fail(format string, args ...any) error {
	return fmt.Errorf("%w: template, line %d: %s", pack.ErrCorrupt, r.line, fmt.Sprintf(format, args...))
}

// unsupported is an error about something that this package does not do.
func (r *run) unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: template, line %d: %s", pack.ErrUnsupported, r.line, fmt.Sprintf(format, args...))
}

// enter counts calls inside calls; the caller must undo it.
func (r *run) enter() error {
	if r.calls++; r.calls > maxCalls {
		return fmt.Errorf("%w: template, line %d: more than %d calls inside each other", pack.ErrLimit,
			r.line, maxCalls)
	}
	return nil
}
