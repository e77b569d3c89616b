// Package questions makes questions for models from a text, by fixed rules: the same text gives the same questions.
//
// A text is cut into sentences (see Sentences). Passages do not overlap, so that the answers to questions are close to
// independent: no sentence is in two of them. Lengths are in characters, but for Passkey, whose passages have as many
// tokens as a model is asked to read.
package questions

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Question asks which ending follows a context. The text of an answer is the context and the ending.
type Question struct {
	Context string   `json:"context"` // ends with the space before the ending, if there is one
	Endings []string `json:"endings"` // a word or a key, or the endings to choose from
	Right   int      `json:"right"`   // index of the ending in the text
}

// Task is a rule that makes questions.
type Task string

// The tasks.
const (
	LastWord Task = "last-word"
	Cloze    Task = "cloze"
	Passkey  Task = "passkey"
)

// List returns all tasks.
func List() []Task { return []Task{LastWord, Cloze, Passkey} }

var rules = map[Task]struct {
	make maker
	word string // what a question asks for; "" = a choice
	need string
}{
	LastWord: {short(lastWords), "word", fmt.Sprintf("a sentence whose last word, of at least %d letters, stands in "+
		"the passage before it too, of %d to %d characters", leastWord, leastContext, mostContext)},
	Cloze: {short(clozes), "", fmt.Sprintf("%d passages of %d to %d characters, each with another sentence of %d to "+
		"%d characters behind it", choices, leastContext, mostContext, leastEnding, mostEnding)},
	Passkey: {passkeys, "key", fmt.Sprintf("a text that is longer than the window, and a window that holds %d "+
		"sentences of it", leastSentences)},
}

// maker makes questions of blocks of sentences.
type maker func(blocks iter.Seq[[]string], fits Fits, progress Progress) ([]Question, error)

// short adapts a rule whose questions are of a few hundred characters, for every model.
func short(make func(iter.Seq[[]string]) []Question) maker {
	return func(blocks iter.Seq[[]string], _ Fits, _ Progress) ([]Question, error) { return make(blocks), nil }
}

// Word says what a question asks for, a word or a key; "" if it has endings to choose from.
func (t Task) Word() string { return rules[t].word }

// Make returns the questions of a text, in its order. fits bounds those of Passkey, which take long to find, as
// progress tells; they are called for no other task, and not before the text is known to be one. The error is
// pack.ErrUnsupported if the text is no text, or has no question, and says what the task needs, after the path of the
// text ("" = unknown); other errors are those of fits, as they are.
func (t Task) Make(path, text string, fits Fits, progress Progress) ([]Question, error) {
	switch {
	case !utf8.ValidString(text):
		return nil, refused(path, "is not UTF-8")
	case strings.Contains(text, "\x00"):
		return nil, refused(path, "has null characters")
	}
	rule := rules[t]
	list, err := rule.make(Sentences(text), fits, progress)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, refused(path, fmt.Sprintf("has no question of the task %s, which needs %s", t, rule.need))
	}
	return list, nil
}

func refused(path, why string) error {
	err := fmt.Errorf("%w: the text %s", pack.ErrUnsupported, why)
	if path == "" {
		return err
	}
	return filerr.Named(path, err)
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
	length := 0
	for begin = i; begin > first && length < leastContext; {
		begin--
		length += utf8.RuneCountInString(block[begin])
		if begin+1 < i {
			length += len(space(block[begin], block[begin+1]))
		}
	}
	return begin, length >= leastContext && length <= mostContext
}
