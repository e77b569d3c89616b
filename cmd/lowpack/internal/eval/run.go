package eval

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// maxLogits bounds the logits that are held at once, per model.
const maxLogits = 32 << 20

// runner is the state of one Run.
type runner struct {
	e, other *engine.Engine
	o        Options
	ids      []int
	bos      int // −1 = none

	piece  int // tokens whose logits are held at once
	seqs   [2]*engine.Sequence
	logits [2][]float32

	scores []score
	total  int // tokens to be scored
	read   int // tokens that went through e
	took   time.Duration
}

// open creates a sequence and a logits buffer per model.
func (r *runner) open() (err error) {
	vocab := r.e.Description().Vocab
	r.piece = min(max(1, maxLogits/(4*vocab)), r.e.Options().Batch, r.o.Window)
	for i, e := range []*engine.Engine{r.e, r.other} {
		if e == nil {
			continue
		}
		if r.seqs[i], err = e.NewSequence(); err != nil {
			r.close()
			return r.of(i, err)
		}
		r.logits[i] = make([]float32, r.piece*vocab)
	}
	return nil
}

func (r *runner) close() {
	for _, s := range r.seqs {
		if s != nil {
			s.Close()
		}
	}
}

// window reads the tokens of a window, piece by piece, and scores the tokens to be scored.
func (r *runner) window(ctx context.Context, w span) error {
	for _, s := range r.seqs {
		if s != nil {
			s.Truncate(w.kept)
		}
	}
	input := r.ids[w.begin : w.end-1]
	if r.bos >= 0 {
		input = append([]int{r.bos}, input...)
	}
	// The first scored token follows the last of len(silent) tokens.
	silent := len(input) - (w.end - w.first)
	for at := w.kept; at < silent; at += r.piece {
		if err := r.forward(ctx, input[at:min(at+r.piece, silent)], false); err != nil {
			return err
		}
	}
	for at := silent; at < len(input); at += r.piece {
		end := min(at+r.piece, len(input))
		if err := r.forward(ctx, input[at:end], true); err != nil {
			return err
		}
		first := w.first + at - silent
		r.score(first, first-w.begin, end-at)
		if r.o.Progress != nil {
			r.o.Progress(len(r.scores), r.total)
		}
	}
	return nil
}

// forward appends tokens to the sequences of both models.
func (r *runner) forward(ctx context.Context, tokens []int, wanted bool) error {
	for i, e := range []*engine.Engine{r.e, r.other} {
		if e == nil {
			continue
		}
		chunk := engine.Chunk{Seq: r.seqs[i], Tokens: tokens}
		if wanted {
			chunk.Logits = r.logits[i][:len(tokens)*e.Description().Vocab]
		}
		start := time.Now()
		if err := e.Forward(ctx, []engine.Chunk{chunk}); err != nil {
			return r.of(i, err)
		}
		if i == 0 {
			r.took += time.Since(start)
			r.read += len(tokens)
		}
	}
	return nil
}

// of adds the name of the model to an error: 0 = e, 1 = other.
func (r *runner) of(i int, err error) error {
	return named([]string{r.o.Model, r.o.Other}[i], err)
}

// score compares n rows of logits with the tokens of the text from first on.
func (r *runner) score(first, depth, n int) {
	vocab := r.e.Description().Vocab
	scores := make([]score, n)
	workers := min(n, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			scratch := [2][]float32{make([]float32, vocab), make([]float32, vocab)}
			for i := worker; i < n; i += workers {
				s := score{at: first + i, depth: depth + i}
				q := engine.NewPrediction(r.logits[0][i*vocab:][:vocab], scratch[0])
				s.nll = q.NLL(r.ids[s.at])
				s.greedy = s.nll == q.NLL(q.Top())
				if r.other != nil {
					p := engine.NewPrediction(r.logits[1][i*vocab:][:vocab], scratch[1])
					s.other, s.kl, s.same = p.NLL(r.ids[s.at]), p.Divergence(q), p.Top() == q.Top()
				}
				scores[i] = s
			}
		})
	}
	wait.Wait()
	r.scores = append(r.scores, scores...)
}
