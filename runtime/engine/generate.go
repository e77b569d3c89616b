package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// Request asks for a continuation of a sequence.
type Request struct {
	Prompt     []int // tokens to append first, at least one
	MaxTokens  int   // most tokens to generate; 0 = as many as the context holds
	Sampling   Sampling
	History    []int    // tokens of the sequence before Prompt, for the repetition penalty
	StopTokens []int    // end the text and are not part of it
	StopTexts  []string // the same, looked for in the text that Decoder makes
	Decoder    Decoder  // nil = no text, only tokens
}

// Decoder turns tokens into text as they come, holding back what is not a whole character yet.
type Decoder interface {
	Next(token int) string
	Flush() string
}

// Piece is one generated token, and the text that is certain with it: text that may turn out to be the start of a stop
// text is held back. The last piece of a text may have no token (−1).
type Piece struct {
	Token int
	Text  string
}

// Reason says why a text ended.
type Reason string

// The reasons.
const (
	EndToken        Reason = "stop"    // a stop token
	EndText         Reason = "text"    // a stop text
	EndLength       Reason = "length"  // MaxTokens
	EndContext      Reason = "context" // the context is full
	StoppedByCaller Reason = "caller"  // yield returned false
)

// Result of a Request.
type Result struct {
	Tokens []int // generated, stop token excluded; the sequence may lack the last one (see Sequence.Len)
	Reason Reason
	Prompt time.Duration // until the logits of the prompt were there
	Decode time.Duration // after that
}

// Generate appends the prompt to a sequence and generates its continuation, piece by piece. It ends early when yield
// returns false or ctx is done; in the latter case the error is that of ctx and the result holds what there was.
func (e *Engine) Generate(ctx context.Context, seq *Sequence, r Request, yield func(Piece) bool) (Result, error) {
	g := generation{Engine: e, request: &r, yield: yield, filter: textFilter{stops: r.StopTexts}}
	if slices.Contains(r.StopTexts, "") {
		return g.result, fmt.Errorf("%w: an empty stop text", pack.ErrUnsupported)
	}
	var err error
	if g.sampler, err = NewSampler(r.Sampling, e.desc.Vocab); err != nil {
		return g.result, err
	}
	for _, list := range [][]int{r.History, r.Prompt} {
		if err := e.checkIDs(list); err != nil {
			return g.result, err
		}
		for _, id := range list {
			g.sampler.Accept(id)
		}
	}
	g.step = []Chunk{{Seq: seq, Tokens: r.Prompt, Logits: make([]float32, e.desc.Vocab), Top: g.sampler.Top()}}
	g.step[0].Keep = g.sampler.Penalized()
	err = g.run(ctx)
	return g.result, err
}

// generation is a Request at work.
type generation struct {
	*Engine
	request *Request
	sampler *Sampler
	filter  textFilter
	yield   func(Piece) bool
	step    []Chunk
	result  Result
}

func (g *generation) run(ctx context.Context) error {
	start := time.Now()
	if err := g.Forward(ctx, g.step); err != nil {
		return err
	}
	g.result.Prompt = time.Since(start)
	start = time.Now()
	defer func() { g.result.Decode = time.Since(start) }()
	g.step[0].Tokens = make([]int, 1)
	for {
		next := g.sampler.Next(g.step[0].Logits)
		if slices.Contains(g.request.StopTokens, next) {
			return g.end(EndToken)
		}
		g.sampler.Accept(next)
		g.result.Tokens = append(g.result.Tokens, next)
		piece, found := g.text(next)
		goes := g.yield(piece)
		switch {
		case !goes:
			g.result.Reason = StoppedByCaller
			return nil
		case found:
			g.result.Reason = EndText
			return nil
		case len(g.result.Tokens) == g.request.MaxTokens:
			return g.end(EndLength)
		case g.step[0].Seq.Len() == g.opt.Context:
			return g.end(EndContext)
		}
		g.step[0].Tokens[0] = next
		g.step[0].Keep = g.sampler.Penalized()
		if err := g.Forward(ctx, g.step); err != nil {
			return err
		}
	}
}

// text decodes a token; found is whether it completed a stop text.
func (g *generation) text(token int) (p Piece, found bool) {
	p.Token = token
	if g.request.Decoder != nil {
		p.Text, found = g.filter.add(g.request.Decoder.Next(token))
	}
	return p, found
}

// end hands out the text that was held back.
func (g *generation) end(why Reason) error {
	g.result.Reason = why
	if g.request.Decoder == nil {
		return nil
	}
	text, found := g.filter.add(g.request.Decoder.Flush())
	if found {
		g.result.Reason = EndText
	} else {
		text += g.filter.rest()
	}
	if text != "" {
		g.yield(Piece{Token: -1, Text: text})
	}
	return nil
}
