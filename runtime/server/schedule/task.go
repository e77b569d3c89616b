package schedule

import (
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// task is a request at work.
type task struct {
	*Request
	call  *Call
	index int // in the call
	texts []*text

	seq     *engine.Sequence // of the prompt, until the texts take over
	resumed int              // tokens that came from the cache of prefixes
	logits  []float32        // of the prompt tokens of a step
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
	from  int // tokens that its sequence shared with others at first

	tokens []int // to be computed next: the last one, with a draft behind it
	plain  bool  // without a draft, the next time
	logits []float32
	events []Event   // of the last step
	at     time.Time // of these

	drafted, accepted int // tokens, in the last step
}

// Timing is when what happened to a request, for metrics.
type Timing struct {
	Arrived, Admitted, Prefilled, Ended time.Time
	PromptTokens, CachedTokens          int
	Tokens                              int // generated, of all texts
	Drafted, Accepted                   int // tokens that were guessed, and those of them that the texts took
	Reasons                             []engine.Reason
	Err                                 error
}

// worst is the number of pages that a task may still take from the pool.
func (t *task) worst(e *engine.Engine) int {
	n := 0
	if t.seq != nil {
		n = unwritten(e, t.resumed, t.seq.Len(), t.end(0))
		for i := 1; i < len(t.Texts); i++ { // forks, which come after the prompt
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

// end is the most tokens that the sequence of a text will have.
func (t *task) end(i int) int {
	if i >= len(t.Texts) {
		return len(t.Prompt)
	}
	return len(t.Prompt) + t.Texts[i].MaxTokens
}

// unwritten is how many new pages a sequence needs from now to its end, whose first tokens were shared.
func unwritten(e *engine.Engine, shared, now, end int) int {
	size := e.PageTokens()
	all := (end+size-1)/size - shared/size
	if now == shared {
		return all
	}
	return all - ((now+size-1)/size - shared/size)
}

// prefilling says whether tokens of the prompt are still to be computed.
func (t *task) prefilling() bool { return t.seq != nil }

// chunk is the next part of the prompt, of at most n tokens.
func (t *task) chunk(n, vocab int) engine.Chunk {
	at := t.seq.Len()
	tokens := t.Prompt[at:min(at+n, len(t.Prompt))]
	rows := 0
	switch ends := at+len(tokens) == len(t.Prompt); {
	case t.PromptLogprobs >= 0:
		rows = len(tokens)
	case ends && len(t.Texts) > 0:
		rows = 1
	}
	if len(t.logits) != rows*vocab {
		t.logits = make([]float32, rows*vocab)
	}
	c := engine.Chunk{Seq: t.seq, Tokens: tokens, Logits: t.logits}
	if rows == 1 && len(t.texts) == 1 && t.Logprobs < 0 && t.PromptLogprobs < 0 {
		c = t.texts[0].gen.Chunk(t.seq, tokens, t.logits)
	}
	return c
}

// scorePrompt notes the logprobs of the prompt tokens that follow those of the last chunk.
func (t *task) scorePrompt(computed, vocab int) {
	if t.PromptLogprobs < 0 {
		return
	}
	scratch := make([]float32, vocab)
	first := t.seq.Len() - computed
	for i := range computed {
		if next := first + i + 1; next < len(t.Prompt) {
			t.prompt = append(t.prompt, logprobOf(t.logits[i*vocab:][:vocab], scratch, t.Prompt[next], t.PromptLogprobs))
		}
	}
}

// next chooses the next token of a text, and another one for each token of the draft that was right. The rest of the
// draft is taken back.
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

// choose chooses a token.
func (x *text) choose(logits []float32) (int, engine.Reason) {
	var scored []float32
	if x.task.Logprobs >= 0 {
		scored = slices.Clone(logits) // before anything changes them
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

// logprobOf scores a token by a row of logits. scratch has the same length.
func logprobOf(logits, scratch []float32, token, alternatives int) Logprob {
	p := engine.NewPrediction(logits, scratch)
	l := Logprob{Token: token, Logprob: -p.NLL(token)}
	for _, id := range largest(logits, alternatives) {
		l.Top = append(l.Top, Alternative{id, -p.NLL(id)})
	}
	return l
}

// largest is the first n tokens in the order of N21.
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
			if logits[id] >= z { // an equal one with a smaller id goes first
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, id)[:min(len(best)+1, n)]
	}
	return best
}
