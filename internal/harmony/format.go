// Package harmony reads the format of gpt-oss, whose output consists of messages on channels: analysis for thoughts,
// final for the answer, and commentary for calls of functions, whose recipients are named.
package harmony

import "slices"

// The control tokens.
const (
	start     = "<|start|>"
	channel   = "<|channel|>"
	message   = "<|message|>"
	constrain = "<|constrain|>"
	end       = "<|end|>"
	call      = "<|call|>"
	done      = "<|return|>"
)

// mark precedes the text of a control token. Text is UTF-8, which never has this byte, so that a model which writes
// about the format is not taken at its word.
const mark = "\xff"

// Format knows the control tokens of a vocabulary.
type Format struct {
	names map[int]string
	ids   map[string]int
}

// Tokens is a vocabulary.
type Tokens interface {
	ID(text string) (id int, ok bool)
	Special(id int) bool
}

// Of returns the format if a vocabulary has all of its control tokens, else nil.
func Of(t Tokens) *Format {
	f := &Format{map[int]string{}, map[string]int{}}
	for _, name := range []string{start, channel, message, constrain, end, call, done} {
		id, ok := t.ID(name)
		if !ok || !t.Special(id) {
			return nil
		}
		f.names[id], f.ids[name] = name, id
	}
	return f
}

// Stops returns the tokens that end the model's turn, given those that a tokenizer knows: the end of a message is not
// one, though a chat template may end a turn with it.
func (f *Format) Stops(known []int) []int {
	stops := []int{f.ids[done], f.ids[call]}
	for _, id := range known {
		if id != f.ids[end] && !slices.Contains(stops, id) {
			stops = append(stops, id)
		}
	}
	return stops
}

// Final returns the tokens that follow the opening of a message to make it an answer.
func (f *Format) Final(encode func(text string) []int) []int {
	return slices.Concat([]int{f.ids[channel]}, encode("final"), []int{f.ids[message]})
}

// Calls returns the tokens that follow the opening of a message to make it a call of a function with arguments in JSON.
func (f *Format) Calls(function string, encode func(text string) []int) []int {
	return slices.Concat([]int{f.ids[channel]}, encode("commentary "+Recipient(function)+" "),
		[]int{f.ids[constrain]}, encode("json"), []int{f.ids[message]})
}

// Recipient is what a chat template writes before a call of a function.
func Recipient(function string) string { return to + functions + function }

// Text turns tokens into text.
type Text interface {
	Next(token int) string
	Flush() string
}

// Marked shows control tokens in a text, so that a Reader finds them.
func (f *Format) Marked(t Text) Text { return &marked{t, f.names} }

type marked struct {
	Text
	names map[int]string
}

func (m *marked) Next(token int) string {
	if name, ok := m.names[token]; ok {
		return m.Flush() + mark + name
	}
	return m.Text.Next(token)
}

// Plain is a marked text with its control tokens spelled out.
func Plain(text string) string { return withoutMarks.Replace(text) }
