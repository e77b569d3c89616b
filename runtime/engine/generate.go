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
	// Adjust changes the logits of the next token before it is chosen; all of them must stay finite. It sees the tokens that
	// were generated so far. nil = nothing is changed.
	Adjust func(generated []int, logits []float32)
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
	g, err := e.NewGeneration(r)
	if err != nil {
		return Result{}, err
	}
	err = g.run(ctx, seq, yield)
	return g.result, err
}

// Generation is the choice of the tokens of one text, step by step, for programs that compute many texts together: they
// append the prompt to a sequence, give the logits after it to Next, append the token that comes, and so on until there is
// a Reason.
type Generation struct {
	e       *Engine
	request Request
	sampler *Sampler
	filter  textFilter
	result  Result
}

// NewGeneration makes the generation of a request, whose prompt the caller computes. Errors: pack.ErrUnsupported for
// sampling settings that have no meaning, tokens outside the vocabulary, and an empty stop text.
func (e *Engine) NewGeneration(r Request) (*Generation, error) {
	g := &Generation{e: e, request: r, filter: textFilter{stops: r.StopTexts}}
	if slices.Contains(r.StopTexts, "") {
		return nil, fmt.Errorf("%w: an empty stop text", pack.ErrUnsupported)
	}
	var err error
	if g.sampler, err = NewSampler(r.Sampling, e.desc.Vocab); err != nil {
		return nil, err
	}
	for _, list := range [][]int{r.History, r.Prompt} {
		if err := e.checkIDs(list); err != nil {
			return nil, err
		}
		for _, id := range list {
			g.sampler.Accept(id)
		}
	}
	return g, nil
}

// Chunk is the request for the logits that Next wants, after tokens of seq.
func (g *Generation) Chunk(seq *Sequence, tokens []int, logits []float32) Chunk {
	c := Chunk{Seq: seq, Tokens: tokens, Logits: logits}
	if g.request.Adjust == nil {
		c.Top, c.Keep = g.sampler.Top(), g.sampler.Penalized()
	}
	return c
}

// Next chooses the next token, from the logits after the prompt or after the token before. It changes them. At the end
// there is a Reason: the token is −1 if it was a stop token, and the text is all that was held back.
func (g *Generation) Next(logits []float32) (Piece, Reason) {
	if g.request.Adjust != nil {
		g.request.Adjust(g.result.Tokens, logits)
	}
	next := g.sampler.Next(logits)
	if slices.Contains(g.request.StopTokens, next) {
		return g.end(Piece{Token: -1}, EndToken)
	}
	g.sampler.Accept(next)
	g.result.Tokens = append(g.result.Tokens, next)
	piece, found := g.text(next)
	switch {
	case found:
		return piece, g.because(EndText)
	case len(g.result.Tokens) == g.request.MaxTokens:
		return g.end(piece, EndLength)
	}
	return piece, ""
}

// Tokens are those that were generated so far.
func (g *Generation) Tokens() []int { return g.result.Tokens }

func (g *Generation) because(why Reason) Reason {
	g.result.Reason = why
	return why
}

func (g *Generation) run(ctx context.Context, seq *Sequence, yield func(Piece) bool) error {
	start := time.Now()
	token := make([]int, 1)
	step := []Chunk{g.Chunk(seq, g.request.Prompt, make([]float32, g.e.desc.Vocab))}
	if err := g.e.Forward(ctx, step); err != nil {
		return err
	}
	g.result.Prompt = time.Since(start)
	start = time.Now()
	defer func() { g.result.Decode = time.Since(start) }()
	for {
		piece, why := g.Next(step[0].Logits)
		if why == "" && seq.Len() == g.e.opt.Context {
			piece, why = g.end(piece, EndContext)
		}
		if (piece.Token >= 0 || piece.Text != "") && !yield(piece) && why != EndToken {
			why = g.because(StoppedByCaller)
		}
		if why != "" {
			return nil
		}
		token[0] = piece.Token
		step[0] = g.Chunk(seq, token, step[0].Logits)
		if err := g.e.Forward(ctx, step); err != nil {
			return err
		}
	}
}

// text decodes a token; found is whether it completed a stop text.
func (g *Generation) text(token int) (p Piece, found bool) {
	p.Token = token
	if g.request.Decoder != nil {
		p.Text, found = g.filter.add(g.request.Decoder.Next(token))
	}
	return p, found
}

// end adds the text that was held back to the last piece.
func (g *Generation) end(last Piece, why Reason) (Piece, Reason) {
	if g.request.Decoder == nil {
		return last, g.because(why)
	}
	text, found := g.filter.add(g.request.Decoder.Flush())
	last.Text += text
	if found {
		return last, g.because(EndText)
	}
	last.Text += g.filter.rest()
	return last, g.because(why)
}
