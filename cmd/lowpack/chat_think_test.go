package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/runtime/engine"
)

// controls is a vocabulary of the control tokens of gpt-oss, and of bytes.
type controls struct{}

var controlNames = []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>",
	"<|return|>"}

func (controls) ID(text string) (int, bool) {
	i := slices.Index(controlNames, text)
	return 256 + i, i >= 0
}

func (controls) Special(id int) bool { return id >= 256 }

func (controls) Next(token int) string { return string(rune(token)) }

func (controls) Flush() string { return "" }

// TestChannels: what gpt-oss thinks can be hidden; a pipe gets the control tokens too, with which a program tells it
// from the answer.
func TestChannels(t *testing.T) {
	f := harmony.Of(controls{})
	text := f.Marked(controls{})
	for as, want := range map[string]string{
		thinkOn:   "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.\n",
		thinkHide: "Yes.\n",
	} {
		var b bytes.Buffer
		screen := newScreen(&b, "output")
		r := f.Reader([]int{256}, controls{}, nil)
		p := &parts{writer: &writer{w: dataOf(screen)}, thinking: harmony.Thoughts{Reader: r}, as: as, screen: screen,
			first: func() {}}
		for _, word := range []string{"<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>", "<|start|>",
			"assistant", "<|channel|>", "final", "<|message|>", "Yes."} {
			if id, ok := (controls{}).ID(word); ok {
				p.piece(engine.Piece{Token: id, Text: text.Next(id)})
				continue
			}
			for _, c := range word {
				p.piece(engine.Piece{Token: int(c), Text: text.Next(int(c))})
			}
		}
		p.end()
		if b.String() != want {
			t.Errorf("%s: %q, want %q", as, b.String(), want)
		}
	}
}
