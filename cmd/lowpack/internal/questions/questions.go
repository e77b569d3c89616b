// Package questions makes questions for models from a text, by fixed rules: the same text gives the same questions.
//
// A text is cut into sentences (see Sentences). Passages do not overlap, so that the answers to questions are close to
// independent. Lengths are in characters.
package questions

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// Question asks which ending follows a context. The text of an answer is the context, a space and the ending.
type Question struct {
	Context string   `json:"context"` // neither begins nor ends with white space
	Endings []string `json:"endings"` // a word, or the endings to choose from
	Right   int      `json:"right"`   // index of the ending in the text
}

// Task is a rule that makes questions.
type Task string

// The tasks.
const (
	LastWord Task = "last-word"
	Cloze    Task = "cloze"
)

// List returns all tasks.
func List() []Task { return []Task{LastWord, Cloze} }

var rules = map[Task]struct {
	make func(blocks [][]string) []Question
	need string
}{
	LastWord: {lastWords, "the last word of a sentence that stands in the sentences before, of at least %d characters"},
	Cloze:    {clozes, "four passages, each of at least %d characters and a sentence that continues them"},
}

// Make returns the questions of a text, in its order. The error for a text without a question says what it needs, and
// is pack.ErrUnsupported.
func (t Task) Make(text string) ([]Question, error) {
	rule := rules[t]
	list := rule.make(Sentences(text))
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the text is too short for a question of the task %s, which needs "+rule.need,
			pack.ErrUnsupported, t, leastContext)
	}
	return list, nil
}

// Write writes questions as JSON Lines.
func Write(w io.Writer, list []Question) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, q := range list {
		if err := e.Encode(q); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of contexts, in characters: enough to tell what is going on, and few tokens for any model.
const (
	leastContext = 300
	mostContext  = 700
)

// passage returns where the shortest context of sentences begins that ends before sentence i and begins at first or
// later; ok is false if there is none within the bounds.
func passage(block []string, first, i int) (begin int, ok bool) {
	length := -1 // no space before the first sentence
	for begin = i; begin > first && length < leastContext; {
		begin--
		length += 1 + utf8.RuneCountInString(block[begin])
	}
	return begin, length >= leastContext && length <= mostContext
}
