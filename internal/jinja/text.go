package jinja

import "strings"

// Text is a string that knows of each of its bytes whether the template wrote it or whether it came with the conversation.
// What a user types may look like a control token; only those that the template writes are meant.
type Text struct {
	S string
	// Input is as long as S: 1 for a byte that came with the conversation, 0 for one of the template. "" = all are the
	// template's.
	Input string
}

// Input is a text that came with the conversation.
func Input(s string) Text { return Text{s, strings.Repeat("\x01", len(s))} }

// NewInput is the value of a text that came with the conversation.
func NewInput(s string) Value { return Input(s).value() }

// value is the value of a text: a string where nothing is marked. So a Text among the values always has marks.
func (t Text) value() Value {
	if t.Marked(0, len(t.S)) {
		return t
	}
	return t.S
}

// AsText returns a string value with its marks.
func AsText(v Value) (Text, bool) {
	switch x := v.(type) {
	case string:
		return Text{S: x}, true
	case Text:
		return x, true
	}
	return Text{}, false
}

// asString returns a string value without its marks: for what only looks at it.
func asString(v Value) (string, bool) {
	t, ok := AsText(v)
	return t.S, ok
}

// printed is the text of a value when it is printed. One with a mark anywhere inside is marked as a whole.
func printed(v Value) Text {
	if t, ok := AsText(v); ok {
		return t
	}
	if s := str(v); sizeOf(v).input {
		return Input(s)
	} else {
		return Text{S: s}
	}
}

// Marked says whether one of the bytes from, from+1 … to−1 came with the conversation.
func (t Text) Marked(from, to int) bool {
	return t.Input != "" && strings.IndexByte(t.Input[from:to], 1) >= 0
}

// Slice is a part of a text.
func (t Text) Slice(from, to int) Text {
	if t.Input == "" {
		return Text{S: t.S[from:to]}
	}
	return Text{t.S[from:to], t.Input[from:to]}
}

// mapped applies f to every run of bytes with the same mark.
func (t Text) mapped(f func(string) string) Text {
	var out textBuilder
	for from := 0; from < len(t.S); {
		to := len(t.S)
		if t.Input != "" {
			if other := strings.IndexByte(t.Input[from:], 1-t.Input[from]); other >= 0 {
				to = from + other
			}
		}
		out.addString(f(t.S[from:to]), t.Input != "" && t.Input[from] == 1)
		from = to
	}
	return out.text()
}

// mappedWhole applies f, which needs to see the whole text, and marks the whole result if anything was marked.
func (t Text) mappedWhole(f func(string) string) Text {
	if s := f(t.S); t.Marked(0, len(t.S)) {
		return Input(s)
	} else {
		return Text{S: s}
	}
}

// joined is a followed by b.
func joined(a, b Text) Text {
	if a.Input == "" && b.Input == "" {
		return Text{S: a.S + b.S}
	}
	return Text{a.S + b.S, a.marks() + b.marks()}
}

// marks is Input with its zeros written out.
func (t Text) marks() string {
	if t.Input == "" {
		return strings.Repeat("\x00", len(t.S))
	}
	return t.Input
}

// textBuilder collects a text.
type textBuilder struct {
	s     []byte
	input []byte // nil while nothing is marked
}

func (b *textBuilder) add(t Text) {
	if t.Input != "" && b.input == nil {
		b.input = make([]byte, len(b.s), cap(b.s)+len(t.S))
	}
	b.s = append(b.s, t.S...)
	if b.input != nil {
		b.input = append(b.input, t.marks()...)
	}
}

func (b *textBuilder) addString(s string, input bool) {
	if input {
		b.add(Input(s))
	} else {
		b.add(Text{S: s})
	}
}

func (b *textBuilder) text() Text { return Text{string(b.s), string(b.input)} }
