package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine/internal/draft"
)

// Values of Request.Speculate.
const (
	SpeculateAuto = -1
	SpeculateMost = draft.Most // the longest draft
)

// drafter guesses the tokens that come next.
type drafter interface {
	Add(token int) // the text goes on with this token
	// the expected speedup from a draft of up to most tokens
	Expect(most int) float64
	Draft(ctx context.Context, most int) []int // at most most guesses; valid until the next call
}

// lookup is prompt lookup: it guesses what followed earlier in the text.
type lookup struct{ *draft.Drafter }

func (l lookup) Draft(_ context.Context, most int) []int { return l.Drafter.Draft(most) }

// drafters use the drafter with the highest expected speedup, the first of equal ones.
type drafters []drafter

func (list drafters) Add(token int) {
	for _, d := range list {
		d.Add(token)
	}
}

func (list drafters) Expect(most int) float64 { return list.fastest(most).Expect(most) }

func (list drafters) Draft(ctx context.Context, most int) []int {
	return list.fastest(most).Draft(ctx, most)
}

func (list drafters) fastest(most int) drafter {
	return slices.MaxFunc(list, func(a, b drafter) int { return cmp.Compare(a.Expect(most), b.Expect(most)) })
}

// newDrafter makes the drafter that the request asks for.
func (g *Generation) newDrafter() (drafter, error) {
	r := &g.request
	switch {
	case r.Speculate == 0:
		return nil, nil
	case r.Speculate < SpeculateAuto || r.Speculate > SpeculateMost:
		return nil, fmt.Errorf("%w: drafts of %d tokens; want at most %d", pack.ErrUnsupported, r.Speculate,
			SpeculateMost)
	}
	if err := g.e.checkIDs(r.Prediction); err != nil {
		return nil, err
	}
	return lookup{draft.New(slices.Concat(r.History, r.Prompt), r.Prediction, g.costOrNone())}, nil
}

// costOrNone is cost, nil if the request sets the draft length.
func (g *Generation) costOrNone() func(tokens int) float64 {
	if g.request.Speculate > 0 {
		return nil
	}
	return g.cost
}

// cost is the time of a pass with a number of tokens of this text, relative to this text's share of a pass with one:
// all texts of a pass share it equally.
func (g *Generation) cost(tokens int) float64 {
	texts := g.beside + 1
	one := g.e.cost(texts)
	return 1 + (g.e.cost(g.beside+tokens)-one)*float64(texts)/one
}

// Draft guesses up to most tokens that may follow the last one that Next returned, none if that would not pay off in a
// pass with beside tokens of other sequences. The caller appends them in one chunk after that token, requests the
// logits after each, and passes the rows to Next one by one as long as Next returns the token of the draft; then it
// truncates the sequence to the tokens that Next returned, without the last. The resulting tokens are the same as
// without a draft. The draft is valid until the next call of a method.
func (g *Generation) Draft(most, beside int) []int {
	return g.draft(context.Background(), most, beside)
}

func (g *Generation) draft(ctx context.Context, most, beside int) []int {
	g.beside, most = beside, min(most, draft.Most-beside)
	if g.request.Speculate > 0 {
		most = min(most, g.request.Speculate)
	}
	if g.request.MaxTokens > 0 {
		most = min(most, g.request.MaxTokens-len(g.result.Tokens)-1)
	}
	if g.drafter == nil || most <= 0 {
		return nil
	}
	return g.drafter.Draft(ctx, most)
}

// Predicted counts the tokens of a text after a prompt that a prediction leads to, at most the length of the
// prediction: tokens that continue the text as the prediction does.
func Predicted(prompt, prediction, text []int) int { return draft.Predicted(prompt, prediction, text) }

// advance appends the last token of the text and a draft, which it returns, and computes the logits after each.
func (g *Generation) advance(ctx context.Context, step *Chunk, token int) ([]int, error) {
	o := &g.e.opt
	guesses := g.draft(ctx, step.Seq.DraftRoom(min(o.Context-step.Seq.Len(), o.Batch)-1), 0)
	for {
		tokens := append([]int{token}, guesses...)
		n := len(tokens) * g.e.desc.Vocab
		if n > cap(step.Logits) {
			step.Logits = make([]float32, n)
		}
		*step = g.Chunk(step.Seq, tokens, step.Logits[:n])
		err := g.e.Forward(ctx, []Chunk{*step})
		if err == nil {
			g.result.Steps++
			g.result.Drafted += len(guesses)
		}
		if err == nil || len(guesses) == 0 {
			return tokens[1:], err
		}
		guesses = nil // the draft alone may be at fault: its numbers overflow, or its page is one too many
	}
}

// take samples tokens from the logits of a step, one more for each accepted token of the draft, and removes the rest of
// the draft. It returns the last of them.
func (g *Generation) take(ctx context.Context, seq *Sequence, logits []float32, draft []int,
	yield func(Piece) bool) (int, error) {
	held, vocab := seq.Len()-len(draft), g.e.desc.Vocab
	defer func() { seq.Truncate(held) }()
	for i := 0; ; i++ {
		token := g.emit(logits[i*vocab:][:vocab], held == g.e.opt.Context, yield)
		if g.result.Reason != "" || i == len(draft) || token != draft[i] {
			return token, nil
		}
		if err := ctx.Err(); err != nil {
			return token, err
		}
		held++
		g.result.Accepted++
	}
}

// emit samples a token and passes it to yield. It ends the text if the context is full.
func (g *Generation) emit(logits []float32, full bool, yield func(Piece) bool) int {
	piece, why := g.Next(logits)
	if why == "" && full {
		piece, why = g.end(piece, EndContext)
	}
	if (piece.Token >= 0 || piece.Text != "") && !yield(piece) && why != EndToken {
		g.because(StoppedByCaller)
	}
	return piece.Token
}

// learn records the time of a batch of the kind that drafts produce: few tokens, with logits after each. tokens were
// computed once more for recurrent states.
func (e *Engine) learn(batch []Chunk, tokens int, took time.Duration) {
	for i := range batch {
		c := &batch[i]
		if c.Err != nil || len(c.Logits) < len(c.Tokens)*e.desc.Vocab {
			return
		}
		tokens += len(c.Tokens)
	}
	if tokens <= e.opt.Batch {
		e.costs.Learn(tokens, took)
	}
}
