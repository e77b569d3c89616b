package schedule

import (
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// task is an accepted request.
type task struct {
	*Request
	call  *Call
	index int // in the call
	texts []*text

	seq     *engine.Sequence // of the prompt during prefill, nil afterwards
	resumed int              // prompt tokens from the prefix cache
	logits  []float32        // of the prompt tokens in a step
	prompt  []Logprob

	ended  bool
	timing Timing
}

// text is one continuation of a task.
type text struct {
	task  *task
	index int
	gen   *engine.Generation
	seq   *engine.Sequence
	from  int // tokens shared with other sequences at the start

	tokens []int // input of the next step: the last token and the draft
	plain  bool  // the next step has no draft
	logits []float32
	events []Event   // of the last step
	at     time.Time // time of events

	drafted, accepted int // draft tokens of the last step
}

// Timing holds the timestamps and counts of a request, for metrics.
type Timing struct {
	Arrived, Admitted, Prefilled, Ended time.Time
	PromptTokens, CachedTokens          int
	Tokens                              int // generated tokens of all texts
	Drafted, Accepted                   int // draft tokens, and how many of them were accepted
	Reasons                             []engine.Reason
	Err                                 error
}

// worst returns the pages that the task may still take from the pool.
func (t *task) worst(e *engine.Engine) int {
	n := 0
	if t.seq != nil {
		n = unwritten(e, t.resumed, t.seq.Len(), t.end(0))
		for i := 1; i < len(t.Texts); i++ { // forks after prefill
			n += unwritten(e, len(t.Prompt), len(t.Prompt), t.end(i))
		}
		return n
	}
	for _, x := range t.texts {
		if x.seq != nil {
			n += unwritten(e, x.from, x.seq.Len(), t.end(x.index))
		}
	}
	return n
}

// end returns the maximum length of the sequence of text i; i ≥ len(Texts) = the prompt.
func (t *task) end(i int) int {
	if i >= len(t.Texts) {
		return len(t.Prompt)
	}
	return len(t.Prompt) + t.Texts[i].MaxTokens
}

// unwritten returns the number of pages that a sequence of length now, whose first shared tokens use shared pages,
// needs to grow to end. Where its keys are rotated once more on the way, these are to replace the shared pages too.
func unwritten(e *engine.Engine, shared, now, end int) int {
	size := e.PageTokens()
	own := shared / size // index of the first page that is not shared
	n := (end+size-1)/size - own
	if now != shared {
		n -= (now+size-1)/size - own
	}
	if restaged(e, now, end) {
		n += own
	}
	return n
}

// restaged reports whether a sequence of length now may have its keys rotated once more before it has length end
// (NUMERICS N67).
func restaged(e *engine.Engine, now, end int) bool {
	r := &e.Description().Rope
	return r.Stage(now) != r.Stage(end)
}

// whole reports whether the task needs the hidden states of all tokens of its prompt.
func (t *task) whole() bool { return t.Vector != nil && t.Vector.Whole() }

// prefilling reports whether prompt tokens are left to compute.
func (t *task) prefilling() bool { return t.seq != nil }

// chunk returns the next part of the prompt, at most n tokens.
func (t *task) chunk(n, vocab int) engine.Chunk {
	at := t.seq.Len()
	tokens := t.Prompt[at:min(at+n, len(t.Prompt))]
	rows, ends := 0, at+len(tokens) == len(t.Prompt)
	switch {
	case t.PromptLogprobs >= 0:
		rows = len(tokens)
	case ends && len(t.Texts)+len(t.Picked) > 0:
		rows = 1
	}
	if len(t.logits) != rows*vocab {
		t.logits = make([]float32, rows*vocab)
	}
	c := engine.Chunk{Seq: t.seq, Tokens: tokens, Logits: t.logits}
	if rows == 1 && len(t.texts) == 1 && t.Logprobs < 0 && t.PromptLogprobs < 0 {
		c = t.texts[0].gen.Chunk(t.seq, tokens, t.logits)
	}
	if t.Vector != nil {
		c.Hidden = t.Vector.Room(len(tokens), ends)
	}
	return c
}

// scorePrompt appends the logprobs of the prompt tokens that follow the tokens of the last chunk.
func (t *task) scorePrompt(computed, vocab int) {
	if t.PromptLogprobs < 0 {
		return
	}
	scratch := make([]float32, vocab)
	first := t.seq.Len() - computed
	for i := range computed {
		if next := first + i + 1; next < len(t.Prompt) {
			t.prompt = append(t.prompt, logprobOf(t.logits[i*vocab:][:vocab], scratch, t.Prompt[next],
				t.PromptLogprobs))
		}
	}
}

// next samples the next token, and another one for each accepted draft token. It truncates the sequence to the accepted
// part.
func (x *text) next(vocab int) {
	draft := x.tokens[1:]
	x.events, x.drafted, x.accepted = x.events[:0], len(draft), 0
	for i := 0; ; i++ {
		token, why := x.choose(x.logits[i*vocab:][:vocab])
		if why != "" || i == len(draft) || token != draft[i] {
			x.seq.Truncate(x.seq.Len() - len(draft) + i)
			x.tokens = append(x.tokens[:0], token)
			return
		}
		x.accepted++
	}
}

// choose samples a token and records its event.
func (x *text) choose(logits []float32) (int, engine.Reason) {
	var scored []float32
	if x.task.Logprobs >= 0 {
		scored = slices.Clone(logits) // before logits processors change them
	}
	piece, why := x.gen.Next(logits)
	e := Event{Request: x.task.index, Text: x.index, Piece: piece, Reason: why}
	if scored != nil && piece.Token >= 0 {
		l := logprobOf(scored, logits, piece.Token, x.task.Logprobs)
		e.Logprob = &l
	}
	x.events = append(x.events, e)
	return piece.Token, why
}

// logprobOf returns the logprob of a token. scratch has the length of logits.
func logprobOf(logits, scratch []float32, token, alternatives int) Logprob {
	p := engine.NewPrediction(logits, scratch)
	l := Logprob{Token: token, Logprob: -p.NLL(token)}
	for _, id := range largest(logits, alternatives) {
		l.Top = append(l.Top, Alternative{id, -p.NLL(id)})
	}
	return l
}

// largest returns the n largest logits in the order of N21.
func largest(logits []float32, n int) []int {
	n = min(n, len(logits))
	if n <= 0 {
		return nil
	}
	best := make([]int, 0, n+1)
	for id, z := range logits {
		if len(best) == n && z <= logits[best[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, z, func(id int, z float32) int {
			if logits[id] >= z { // the smaller id first among equals
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, id)[:min(len(best)+1, n)]
	}
	return best
}
