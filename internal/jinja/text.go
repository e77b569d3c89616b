package jinja

import "github.com/lowpack/lowpack/internal/marked"

// NewInput is the value of a text that came with the conversation.
func NewInput(s string) Value { return textValue(marked.Input(s)) }

// textValue is the value of a text: a string where nothing is marked. So a marked.Text among the values always has
// marks.
func textValue(t marked.Text) Value {
	if t.Marked(0, len(t.S)) {
		return t
	}
	return t.S
}

// AsText returns a string value with its marks.
func AsText(v Value) (marked.Text, bool) {
	switch x := v.(type) {
	case string:
		return marked.Text{S: x}, true
	case marked.Text:
		return x, true
	}
	return marked.Text{}, false
}

// asString returns a string value without its marks, for code that only inspects it.
func asString(v Value) (string, bool) {
	t, ok := AsText(v)
	return t.S, ok
}

// printed is the text of a value when it is printed. One with a mark anywhere inside is marked as a whole.
func printed(v Value) marked.Text {
	if t, ok := AsText(v); ok {
		return t
	}
	if s := str(v); sizeOf(v).input {
		return marked.Input(s)
	} else {
		return marked.Text{S: s}
	}
}
