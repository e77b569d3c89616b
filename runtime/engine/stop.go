package engine

import (
	"strings"

	"github.com/lowpack/lowpack/internal/overlap"
)

// textFilter looks for stop texts in a text that arrives in pieces.
type textFilter struct {
	stops []string
	held  string // may be the start of a stop text
}

// add takes the next piece and returns the text that is final: up to the first stop text if there is one, which ends
// the text.
func (f *textFilter) add(piece string) (text string, found bool) {
	f.held += piece
	end := -1
	for _, s := range f.stops {
		if i := strings.Index(f.held, s); i >= 0 && (end < 0 || i < end) {
			end = i
		}
	}
	if end >= 0 {
		return f.held[:end], true
	}
	keep := 0
	for _, s := range f.stops {
		keep = max(keep, overlap.Of(f.held, s))
	}
	text, f.held = f.held[:len(f.held)-keep], f.held[len(f.held)-keep:]
	return text, false
}

// rest is the text that is still held back when the text ends for another reason.
func (f *textFilter) rest() string { return f.held }
