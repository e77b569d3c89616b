// Package marked implements text that records which of its bytes came from a user: what a user types may look like a
// control token, and only those that a chat template writes are meant.
package marked

import "strings"

// Text is a string that knows of each of its bytes whether a template wrote it or whether it came with a conversation.
type Text struct {
	S string
	// Input is as long as S: 1 for a byte that came with the conversation, 0 for one of the template. "" = all are the
	// template's.
	Input string
}

// Input is a text that came with the conversation.
func Input(s string) Text { return Text{s, strings.Repeat("\x01", len(s))} }

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

// Map applies f to every run of bytes with the same mark.
func (t Text) Map(f func(string) string) Text {
	var out Builder
	for from := 0; from < len(t.S); {
		to := len(t.S)
		if t.Input != "" {
			if other := strings.IndexByte(t.Input[from:], 1-t.Input[from]); other >= 0 {
				to = from + other
			}
		}
		out.AddString(f(t.S[from:to]), t.Input != "" && t.Input[from] == 1)
		from = to
	}
	return out.Text()
}

// MapWhole applies f, which needs to see the whole text, and marks the whole result if anything was marked.
func (t Text) MapWhole(f func(string) string) Text {
	if s := f(t.S); t.Marked(0, len(t.S)) {
		return Input(s)
	} else {
		return Text{S: s}
	}
}

// Join is a followed by b.
func Join(a, b Text) Text {
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

// Builder collects a text.
type Builder struct {
	s     []byte
	input []byte // nil while nothing is marked
}

// Add appends a text.
func (b *Builder) Add(t Text) {
	if t.Input != "" && b.input == nil {
		b.input = make([]byte, len(b.s), cap(b.s)+len(t.S))
	}
	b.s = append(b.s, t.S...)
	if b.input != nil {
		b.input = append(b.input, t.marks()...)
	}
}

// AddString appends a string of one kind.
func (b *Builder) AddString(s string, input bool) {
	if input {
		b.Add(Input(s))
	} else {
		b.Add(Text{S: s})
	}
}

// Text is what has been collected.
func (b *Builder) Text() Text { return Text{string(b.s), string(b.input)} }

// Len is the number of bytes that have been collected.
func (b *Builder) Len() int { return len(b.s) }
