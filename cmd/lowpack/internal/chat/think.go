package chat

import "strings"

// Part is a piece of an answer: text for the reader, or the model's thinking before it answers.
type Part struct {
	Text  string
	Think bool
}

// The marks between which reasoning models think.
const (
	thinkBegin = "<think>"
	thinkEnd   = "</think>"
)

// Thinking splits an answer that comes in pieces. Its marks, and the white space around them, are in no part.
type Thinking struct {
	inside bool
	held   string // the beginning of what may be a mark
	after  bool   // a mark came last: white space is dropped
}

// NewThinking splits an answer to the prompt text. Some chat templates end with the mark that begins the thinking.
func NewThinking(text string) *Thinking {
	inside := strings.HasSuffix(strings.TrimRight(text, " \n"), thinkBegin)
	return &Thinking{inside: inside, after: inside}
}

// Add divides the next piece.
func (t *Thinking) Add(piece string) (parts []Part) {
	text := t.held + piece
	t.held = ""
	for text != "" {
		mark := thinkBegin
		if t.inside {
			mark = thinkEnd
		}
		before, rest, found := strings.Cut(text, mark)
		if !found {
			n := overlap(text, mark)
			t.held = text[len(text)-n:]
			return t.part(parts, text[:len(text)-n])
		}
		parts = t.part(parts, before)
		t.inside, t.after, text = !t.inside, true, rest
	}
	return parts
}

// End returns the text that was held back.
func (t *Thinking) End() []Part {
	held := t.held
	t.held = ""
	return t.part(nil, held)
}

func (t *Thinking) part(parts []Part, text string) []Part {
	if t.after {
		text = strings.TrimLeft(text, " \n")
	}
	if text == "" {
		return parts
	}
	t.after = false
	return append(parts, Part{text, t.inside})
}

// overlap returns how many trailing bytes of text are a prefix of mark.
func overlap(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
