package eval

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Subject is a model that is asked. It must have a free sequence.
type Subject struct {
	Engine *engine.Engine
	Encode func(text string) ([]int, error) // without a begin-of-text token
	Bare   bool                             // no begin-of-text token before a question; must be set if there is none
	Path   string                           // for errors; "" = unknown
}

// Answer says how likely the endings of a question are, in their order.
type Answer struct {
	LogLikelihoods []float64 `json:"loglikelihoods"` // in nats
	Greedy         []bool    `json:"greedy"`         // each token of the ending is an argmax token
}

// Ask returns the answers of a model, which are those that lm-evaluation-harness gets: an ending is the tokens of
// context and ending together from as many on as the context has alone, its log-likelihood their sum, in order.
func Ask(ctx context.Context, s *Subject, list []questions.Question, progress func(done int)) ([]Answer, error) {
	o := Options{Window: s.Engine.Options().Context, Model: s.Path}
	a := &asker{s: s, runner: runner{e: s.Engine, o: o, bos: -1}}
	if err := a.open(); err != nil {
		return nil, err
	}
	defer a.close()
	answers := make([]Answer, len(list))
	for i := range list {
		if err := a.ask(ctx, &list[i], &answers[i]); err != nil {
			return nil, named(s.Path, fmt.Errorf("question %d: %w", i+1, err))
		}
		progress(i + 1)
	}
	return answers, nil
}

// asker scores each ending of a question as a window of its own. The begin-of-text token is one of the tokens that the
// runner knows.
type asker struct {
	runner
	s *Subject
}

func (a *asker) ask(ctx context.Context, q *questions.Question, into *Answer) error {
	context, err := a.encode(q.Context)
	if err != nil {
		return err
	}
	if len(context) == 0 {
		return fmt.Errorf("%w: the tokenizer makes no tokens of the context", pack.ErrUnsupported)
	}
	for i, ending := range q.Endings {
		whole, err := a.encode(q.Context + " " + ending)
		if err != nil {
			return err
		}
		a.ids = append(context[:len(context):len(context)], whole[min(len(context), len(whole)):]...)
		if n := len(a.ids) - 1; n > a.o.Window {
			return fmt.Errorf("%w: %d tokens have to be read; the model takes at most %d", pack.ErrUnsupported, n,
				a.o.Window)
		}
		w := span{first: len(context), end: len(a.ids)}
		if i > 0 {
			w.kept = len(context) - 1
		}
		a.scores = nil
		if err := a.window(ctx, w); err != nil {
			return err
		}
		sum, greedy := 0.0, true
		for _, s := range a.scores {
			sum -= s.nll
			greedy = greedy && s.greedy
		}
		into.LogLikelihoods, into.Greedy = append(into.LogLikelihoods, sum), append(into.Greedy, greedy)
	}
	return nil
}

func (a *asker) encode(text string) ([]int, error) {
	ids, err := a.s.Encode(text)
	if !a.s.Bare {
		ids = append([]int{a.e.Description().BOS}, ids...)
	}
	return ids, err
}
