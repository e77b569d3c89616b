package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/internal/thinking"
	"github.com/lowpack/lowpack/runtime/engine"
)

// How the thinking parts of an answer are handled.
const (
	thinkOn   = "on"   // they are shown, dimmed on a terminal
	thinkOff  = "off"  // the chat template disables thinking
	thinkHide = "hide" // they are not shown
)

func thinkFlag() cli.Flag {
	return oneOf(&cli.StringFlag{Name: "think", Value: thinkOn,
		Usage: "what reasoning models think between <think> and </think>, or in the analysis channel: `HOW` it is " +
			"shown; off asks the chat template for answers without it"},
		thinkWords...)
}

var thinkWords = []string{thinkOn, thinkOff, thinkHide}

func (t *talk) think() string { return t.c.String("think") }

// splitter tells the thinking in an answer from the rest.
type splitter interface {
	Add(piece string) (thought, text string)
	End() (thought, text string)
}

// splitter returns one for what follows the tokens of the conversation.
func (t *talk) splitter() splitter {
	if t.harmony == nil {
		return thinking.New(t.Tokenizer.Decode(t.past[max(0, len(t.past)-thinking.Tail):], true))
	}
	noFunctions := func(string) bool { return false }
	return harmony.Thoughts{Reader: t.harmony.Reader(t.past, t.Tokenizer.NewStream(true), noFunctions)}
}

// decoder returns one for a splitter.
func (t *talk) decoder() engine.Decoder {
	text := t.Tokenizer.NewStream(true)
	if t.harmony == nil {
		return text
	}
	return t.harmony.Marked(text)
}

// parts writes an answer, and its thinking as the flag demands.
type parts struct {
	*writer
	thinking splitter
	as       string
	screen   io.Writer
	first    func() // is called before anything is shown

	thought bool // a thought was last
}

// plain reports whether everything is shown as it comes: in files and pipes every byte, and on a terminal without
// styles.
func (p *parts) plain() bool { return p.ids || p.as != thinkHide && !coloured(p.screen) }

func (p *parts) piece(piece engine.Piece) bool {
	if p.plain() {
		p.first()
		piece.Text = harmony.Plain(piece.Text)
		return p.writer.piece(piece)
	}
	return p.show(p.thinking.Add(piece.Text))
}

func (p *parts) show(thought, text string) bool {
	if thought != "" && p.as != thinkHide {
		p.first()
		p.thought = true
		p.err = paint(p.screen, dim, thought)
	}
	if text != "" {
		p.first()
		if p.thought {
			text = "\n\n" + text
		}
		p.thought = false
		p.writer.piece(engine.Piece{Text: text})
	}
	return p.writer.err == nil
}

func (p *parts) end() {
	if !p.plain() {
		p.show(p.thinking.End())
	}
	p.writer.end()
}
