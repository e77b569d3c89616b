// Package thinking separates what a reasoning model thinks from its answer.
package thinking

import (
	"strings"

	"github.com/lowpack/lowpack/internal/overlap"
)

// The marks around thoughts.
const (
	begin = "<think>"
	end   = "</think>"
)

const blank = " \t\r\n"

// Tail is the number of trailing prompt tokens that are enough for New: the first mark and the white space around it.
const Tail = 8

// Reader splits generated text as it arrives. Thoughts come first, if at all; later marks are part of the answer. The
// marks and the white space around them are dropped.
type Reader struct {
	stage   stage
	held    string // undecided text
	thought bool   // some of the thought was returned
}

// stage is what a Reader expects next.
type stage int

const (
	atStart  stage = iota // the first mark, or an answer without thoughts
	opened                // thoughts, since the prompt ends with the first mark; some models repeat it
	thinking              // thoughts up to the last mark
	between               // white space before the answer
	answer
)

// New splits what follows a prompt, of which it needs the last tokens: some chat templates end with the first mark.
func New(prompt string) *Reader {
	if strings.HasSuffix(strings.TrimRight(prompt, blank), begin) {
		return &Reader{stage: opened}
	}
	return &Reader{}
}

// Thinking reports whether the model has begun to think and not yet ended.
func (r *Reader) Thinking() bool { return r.stage == opened || r.stage == thinking }

// Add returns what a piece of text decides: thoughts, and what follows them of the answer.
func (r *Reader) Add(piece string) (thought, text string) {
	r.held += piece
	if r.stage <= opened && !r.started() {
		return "", ""
	}
	if r.stage == thinking {
		thought = r.think()
	}
	if r.stage == between {
		if r.held = strings.TrimLeft(r.held, blank); r.held != "" {
			r.stage = answer
		}
	}
	if r.stage == answer {
		text, r.held = r.held, ""
	}
	return thought, text
}

// started decides whether the text starts with the first mark; false = not yet.
func (r *Reader) started() bool {
	rest := strings.TrimLeft(r.held, blank)
	switch {
	case strings.HasPrefix(rest, begin):
		r.held, r.stage = rest[len(begin):], thinking
	case strings.HasPrefix(begin, rest):
		return false
	case r.stage == opened:
		r.stage = thinking
	default:
		r.stage = answer
	}
	return true
}

// think returns thoughts up to the last mark, or up to what may still become that mark or the white space before it.
func (r *Reader) think() string {
	if !r.thought {
		r.held = strings.TrimLeft(r.held, blank)
	}
	thought, rest, ended := strings.Cut(r.held, end)
	if !ended {
		thought = r.held[:len(r.held)-overlap.Of(r.held, end)]
	}
	thought = strings.TrimRight(thought, blank)
	if r.held = r.held[len(thought):]; ended {
		r.held, r.stage = rest, between
	}
	r.thought = r.thought || thought != ""
	return thought
}

// End returns the undecided text, at the end of the output.
func (r *Reader) End() (thought, text string) {
	held := r.held
	r.held = ""
	switch {
	case r.stage == opened:
		return strings.Trim(held, blank), ""
	case r.Thinking():
		return strings.TrimRight(held, blank), ""
	case r.stage == atStart:
		return "", held
	}
	return "", ""
}
