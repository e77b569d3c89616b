package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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

// Tokens are those of a question, as a model reads them. An ending has those of context and ending together from as
// many on as the context has alone.
type Tokens struct {
	context []int
	endings [][]int
	Cut     bool // the model cannot read all: with the longest ending, the first tokens are left out
}

// Tokenize returns the tokens of questions. It is pack.ErrUnsupported if the model cannot read an ending of one.
func (s *Subject) Tokenize(ctx context.Context, list []questions.Question, progress func(done int)) ([]Tokens, error) {
	all := make([]Tokens, len(list))
	for i := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.tokenize(&list[i], &all[i]); err != nil {
			return nil, named(s.Path, fmt.Errorf("question %d: %w", i+1, err))
		}
		progress(i + 1)
	}
	return all, nil
}

// Within accepts questions of which at most window tokens have to be read (0 = DefaultWindow), and that the context of
// the model holds. The context of a question is taken to have no more tokens alone than with an ending.
func (s *Subject) Within(window int) questions.Fits {
	most := min(cmp.Or(window, DefaultWindow), s.Engine.Options().Context)
	return func(q *questions.Question) (bool, error) {
		for _, ending := range q.Endings {
			whole, err := s.encode(q.Context + ending)
			if err != nil || len(whole)-1 > most {
				return false, named(s.Path, err)
			}
		}
		return true, nil
	}
}

func (s *Subject) tokenize(q *questions.Question, into *Tokens) (err error) {
	into.context, err = s.encode(strings.TrimSuffix(q.Context, " "))
	if err != nil {
		return err
	}
	begin, most := len(into.context), s.Engine.Options().Context
	if begin == 0 {
		return fmt.Errorf("%w: the tokenizer makes no tokens of the context", pack.ErrUnsupported)
	}
	for _, ending := range q.Endings {
		whole, err := s.encode(q.Context + ending)
		if err != nil {
			return err
		}
		whole = slices.Clone(whole[min(begin, len(whole)):])
		if n := len(whole); n > most {
			return fmt.Errorf("%w: an ending of %d tokens; the model reads at most %d", pack.ErrUnsupported, n, most)
		}
		into.Cut = into.Cut || begin+len(whole)-1 > most // the last token is not read
		into.endings = append(into.endings, whole)
	}
	return nil
}

func (s *Subject) encode(text string) ([]int, error) {
	ids, err := s.Encode(text)
	if !s.Bare {
		ids = append([]int{s.Engine.Description().BOS}, ids...)
	}
	return ids, err
}

// Ask returns the answers of a model to questions in its tokens, which are those that lm-evaluation-harness gets: the
// log-likelihood of an ending is the sum of those of its tokens, in order. Of more than the model can read, the first
// tokens are left out, that of the begin of a text too.
func Ask(ctx context.Context, s *Subject, list []Tokens, progress func(done int)) ([]Answer, error) {
	o := Options{Window: s.Engine.Options().Context, Model: s.Path}
	a := &asker{runner{e: s.Engine, o: o, bos: -1}}
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
type asker struct{ runner }

func (a *asker) ask(ctx context.Context, q *Tokens, into *Answer) error {
	for i, ending := range q.endings {
		a.ids = slices.Concat(q.context, ending)
		a.ids = a.ids[max(0, len(a.ids)-1-a.o.Window):]
		w := span{first: len(a.ids) - len(ending), end: len(a.ids)}
		if i > 0 && !q.Cut {
			w.kept = len(q.context) - 1
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
