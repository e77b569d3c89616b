// Package schedule runs many requests on one engine with continuous batching: sequences join and leave the batch at
// every step, prompts are prefilled in chunks alongside decoding, and requests with a common prefix share the KV cache.
//
// The output of a request does not depend on the batch: the engine computes the same bits in every batch, and
// everything that chooses tokens (random numbers, penalties, masks) belongs to one sequence.
package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/runtime/embedding"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Request is one prompt with its continuations.
type Request struct {
	Prompt []int
	// Texts are the continuations of the prompt, each with its own sampling settings, seed and decoder. MaxTokens must
	// be at least 1; Prompt and History are ignored. Empty = compute the prompt only.
	Texts []engine.Request
	// Logprobs is the number of alternatives reported per generated token; −1 = no logprobs.
	Logprobs int
	// PromptLogprobs is the same for the prompt tokens from the second on.
	PromptLogprobs int
	// Salt separates prefix caches: requests with different salts share none, so that a client cannot measure what
	// another one has computed.
	Salt string
	// Vector, if not nil, takes hidden states of the prompt, and Texts is empty. One that needs the states of all
	// tokens shares no prefix: the KV cache does not have them. It is complete when the call has ended.
	Vector *embedding.Vector
	// Picked are tokens of the vocabulary whose logits after the prompt are wanted; Texts is empty.
	Picked []int
}

// Logprob is a token with its natural log probability under the model's logits, before penalties, temperature and other
// changes.
type Logprob struct {
	Token   int
	Logprob float64
	Top     []Alternative // the most probable tokens, in the order of N21
}

// Alternative is another candidate token.
type Alternative struct {
	Token   int
	Logprob float64
}

// Event reports progress of a Call.
type Event struct {
	Request int // index in the call
	Text    int // index into Request.Texts; −1 = the prompt is finished
	engine.Piece
	Logprob *Logprob      // of the token, if requested
	Reason  engine.Reason // "" = unfinished

	// With Text −1 only:
	Prompt []Logprob // of the prompt tokens from the second on, if requested
	Cached int       // prompt tokens taken from the prefix cache
	Logits []float32 // of Request.Picked
}

// Errors of Submit and Next, besides those of the context and *RequestError for requests that can never run.
var (
	ErrDraining = errors.New("the server is shutting down")
	ErrFailed   = errors.New("the engine failed")
)

// BusyError reports a full queue.
type BusyError struct {
	Waiting    int
	RetryAfter time.Duration // estimated time until the queue has room
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the queue is full: %d requests are waiting; try again in %v", e.Waiting, e.RetryAfter)
}

// RequestError reports a request that can never run here.
type RequestError struct {
	Request int
	TooLong bool // the prompt, or the prompt with the requested tokens, exceeds the context or the KV cache
	Err     error
}

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }
