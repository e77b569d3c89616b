// Package schedule computes many texts on one engine at once: sequences join and leave the batch at every step, prompts
// go through it in chunks beside the texts that are being generated, and the KV cache is shared by texts that begin
// alike.
//
// What a request gets does not depend on any of that: the engine computes the same bits in every batch, and all that
// chooses tokens (random numbers, penalties, masks) belongs to one text alone.
package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// Request asks for continuations of one prompt.
type Request struct {
	Prompt []int
	// Texts are the continuations, which share the prompt: each with settings, seed and decoder of its own. MaxTokens is
	// at least 1; Prompt and History of these are not used. None = the prompt alone is computed.
	Texts []engine.Request
	// Logprobs is how many alternatives of each generated token are reported; −1 = no logprobs.
	Logprobs int
	// PromptLogprobs is the same for the tokens of the prompt, from the second on.
	PromptLogprobs int
	// Salt keeps the cache of prefixes of some requests apart from that of others, who could otherwise measure what has
	// been computed before.
	Salt string
}

// Logprob is a token with the natural logarithm of its probability, by the logits of the model alone: before penalties,
// temperature and whatever else changes them.
type Logprob struct {
	Token   int
	Logprob float64
	Top     []Alternative // the most probable tokens in the order of N21, as many as were asked for
}

// Alternative is a token that could have been chosen.
type Alternative struct {
	Token   int
	Logprob float64
}

// Event is what a Call has to tell.
type Event struct {
	Request int // index in the call
	Text    int // index of Request.Texts; −1: about the prompt
	engine.Piece
	Logprob *Logprob      // of the token, if it was asked for
	Reason  engine.Reason // "" = the text goes on

	// With Text −1: all is known about the prompt.
	Prompt []Logprob // of its tokens from the second on, if they were asked for
	Cached int       // tokens that were not computed again
}

// The errors of Submit and Next, besides those of the context. A request that can never be computed gets a
// *RequestError.
var (
	ErrDraining = errors.New("the server is shutting down")
	ErrFailed   = errors.New("the engine failed")
)

// BusyError says that the queue is full.
type BusyError struct {
	Waiting    int
	RetryAfter time.Duration // an estimate of when there will be room
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the queue is full: %d requests are waiting; try again in %v", e.Waiting, e.RetryAfter)
}

// RequestError says why a request can never be computed here.
type RequestError struct {
	Request int
	TooLong bool // the prompt, or the prompt with the tokens asked for
	Err     error
}

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }
