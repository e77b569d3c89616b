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
	MaxTokens  int   // maximum tokens to generate; 0 = what the context holds
	Sampling   Sampling
	History    []int    // tokens of the sequence before Prompt, for the repetition penalty
	StopTokens []int    // end the text and are not part of it
	StopTexts  []string // the same, matched in the text that Decoder produces
	Decoder    Decoder  // nil = no text, only tokens
	// Adjust changes the logits of the next token before it is sampled; all of them must stay finite. generated holds
	// the tokens so far. nil = no change.
	Adjust func(generated []int, logits []float32)

	// Speculate drafts tokens by prompt lookup and verifies them in the pass of the preceding token: SpeculateAuto as
	// many as pay off by measurement, n > 0 at most n of them, 0 none. Drafts change how long a text takes, not its
	// tokens. Prediction is a text that is expected to appear, at least in parts: an additional source of drafts.
	Speculate  int
	Prediction []int
	// Drafts is a draft model, used by Generate where Speculate allows it.
	Drafts *DraftModel
}

// Decoder turns tokens into text incrementally, holding back incomplete characters.
type Decoder interface {
	Next(token int) string
	Flush() string
}

// Piece is one generated token, and the text that is final with it: text that may turn out to be the start of a stop
// text is held back. The last piece of a text may have no token (−1).
type Piece struct {
	Token int
	Text  string
}

// Reason says why generation ended.
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
	Tokens []int // generated, without the stop token; the sequence may lack the last one (see Sequence.Len)
	Reason Reason
	Prompt time.Duration // until the logits of the prompt were computed
	Decode time.Duration // after that

	Steps    int // passes after the prompt
	Drafted  int // draft tokens in these passes
	Accepted int // draft tokens that were accepted
}

// Generate appends the prompt to a sequence and generates its continuation, piece by piece. It ends early when yield
// returns false or ctx is done; in the latter case it returns the error of ctx and the result so far. Neither yield nor
// anyone else may use the sequence meanwhile.
func (e *Engine) Generate(ctx context.Context, seq *Sequence, r Request, yield func(Piece) bool) (Result, error) {
	g, err := e.NewGeneration(r)
	if err != nil {
		return Result{}, err
	}
	err = g.run(ctx, seq, yield)
	return g.result, err
}

// Generation chooses the tokens of one text, step by step, for programs that batch many sequences: they append the
// prompt to a sequence, pass the logits after it to Next, append the token that it returns, and so on until there is a
// Reason. Draft says which tokens may be worth appending with it.
type Generation struct {
	e       *Engine
	request Request
	sampler *Sampler
	drafter drafter // nil = no speculation
	beside  int     // tokens of other sequences in the pass that a draft is for
	filter  textFilter
	result  Result
}

// NewGeneration prepares the generation of a request whose prompt the caller computes. It returns pack.ErrUnsupported
// for invalid sampling settings and drafts, tokens outside the vocabulary, and an empty stop text.
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
	g.drafter, err = g.newDrafter()
	return g, err
}

// Chunk is the chunk that computes the logits for Next, after tokens of seq. With logits for several of them, all but
// the first of these tokens are a draft.
func (g *Generation) Chunk(seq *Sequence, tokens []int, logits []float32) Chunk {
	c := Chunk{Seq: seq, Tokens: tokens, Logits: logits}
	if g.request.Adjust == nil {
		c.Top, c.Keep = g.sampler.Top(), g.sampler.Penalized()
		// the sampler penalizes accepted draft tokens
		if rows := len(logits) / g.e.desc.Vocab; rows > 1 && c.Keep != nil {
			c.Keep = slices.Concat(c.Keep, tokens[len(tokens)-rows+1:])
		}
	}
	return c
}

// Next samples the next token, from the logits after the prompt or after the previous token. It modifies them. At the
// end there is a Reason: the token is −1 if it was a stop token, and the text is everything that was held back.
func (g *Generation) Next(logits []float32) (Piece, Reason) {
	if g.request.Adjust != nil {
		g.request.Adjust(g.result.Tokens, logits)
	}
	next := g.sampler.Next(logits)
	if slices.Contains(g.request.StopTokens, next) {
		return g.end(Piece{Token: -1}, EndToken)
	}
	g.sampler.Accept(next)
	if g.drafter != nil {
		g.drafter.Add(next)
	}
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

// Tokens returns the tokens generated so far.
func (g *Generation) Tokens() []int { return g.result.Tokens }

func (g *Generation) because(why Reason) Reason {
	g.result.Reason = why
	return why
}

func (g *Generation) run(ctx context.Context, seq *Sequence, yield func(Piece) bool) error {
	if m := g.request.Drafts; m != nil && g.drafter != nil {
		small, end, err := g.newModelDrafter(m)
		if err != nil {
			return err
		}
		defer end()
		g.drafter = drafters{small, g.drafter}
	}
	start := time.Now()
	step := g.Chunk(seq, g.request.Prompt, make([]float32, g.e.desc.Vocab))
	if err := g.e.Forward(ctx, []Chunk{step}); err != nil {
		return err
	}
	g.result.Prompt = time.Since(start)
	start = time.Now()
	defer func() { g.result.Decode = time.Since(start) }()
	var draft []int
	for {
		token, err := g.take(ctx, seq, step.Logits, draft, yield)
		if err != nil || g.result.Reason != "" {
			return err
		}
		if draft, err = g.advance(ctx, &step, token); err != nil {
			return err
		}
	}
}

// text decodes a token; found reports whether it completed a stop text.
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
