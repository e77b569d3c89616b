// Package eval measures how well a model predicts a text, and how far its predictions are from those of another form of
// the same model.
//
// The logits are those of the engine, the same on every machine, and so are all figures but the times: probabilities
// are summed up in float64, in a fixed order, with functions of our own.
package eval

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Options of an evaluation.
//
// The tokens of a text are cut into windows of Window tokens that begin every Stride tokens. In each window the model
// reads the begin-of-text token, if it has one and Bare is not set, and the tokens of the window, and every token is
// scored once: in the first window that holds it. So with Stride = Window each token is predicted from what precedes it
// in its window; with a smaller stride, from at least Window − Stride tokens. Without a begin-of-text token, the first
// token of a window that would be scored is not: nothing precedes it.
type Options struct {
	Window   int  // tokens; 0 = DefaultWindow, or the model's context if that is less
	Stride   int  // tokens; 0 = Window
	Bare     bool // no begin-of-text token before a window
	Progress func(done, total int)

	Text, Model, Other string // paths, for errors; "" = unknown
}

// DefaultWindow is long enough to capture most of the benefit of context.
const DefaultWindow = 2048

// Result of an evaluation.
type Result struct {
	Tokens          int     `json:"tokens"` // scored
	Windows         int     `json:"windows"`
	Window          int     `json:"window"`
	Stride          int     `json:"stride"`
	BeginOfText     bool    `json:"begin_of_text"`
	MeanNLL         float64 `json:"mean_nll"` // of a token, in nats
	Perplexity      float64 `json:"perplexity"`
	PerplexityError float64 `json:"perplexity_error"` // one standard error, tokens taken as independent
	Seconds         float64 `json:"seconds"`          // in the forward passes of this model
	TokensPerSecond float64 `json:"tokens_per_second"`

	Against *Against `json:"against,omitempty"`

	scores []score
}

// Against compares with another model, whose predictions are the yardstick: KL is Σ p·ln(p/q) with p of the other and q
// of this model. Errors are one standard error of a mean over tokens taken as independent; the error of the ratio is
// based on paired losses, so that it is small if both models are wrong about the same tokens.
type Against struct {
	Perplexity  float64 `json:"perplexity"`       // of the other model
	Ratio       float64 `json:"perplexity_ratio"` // this model's perplexity over the other's
	RatioError  float64 `json:"perplexity_ratio_error"`
	MeanKL      float64 `json:"mean_kl"` // nats
	MeanKLError float64 `json:"mean_kl_error"`
	P99KL       float64 `json:"p99_kl"` // the smallest KL that 99 % of the tokens do not exceed
	MaxKL       float64 `json:"max_kl"`
	MaxAt       int     `json:"max_at"`         // token of the text with the largest KL, counted from 0
	Top1        float64 `json:"top1_agreement"` // share of positions where both have the same argmax token
	Top1Error   float64 `json:"top1_agreement_error"`
}

// score of one token.
type score struct {
	at    int     // in the text
	depth int     // tokens before it in the window
	nll   float64 // −ln p
	other float64 // nll of the other model
	kl    float64
	same  bool // argmax token

	greedy bool // an argmax token
}

// Run evaluates e on the tokens of a text, and compares with other if it is not nil. Both must have a free sequence.
func Run(ctx context.Context, e, other *engine.Engine, ids []int, o Options) (*Result, error) {
	if err := o.complete(e, other); err != nil {
		return nil, named(o.Model, err)
	}
	r := &runner{e: e, other: other, o: o, ids: ids, bos: e.Description().BOS}
	if o.Bare {
		r.bos = -1
	}
	windows := r.windows()
	for _, w := range windows {
		r.total += w.end - w.first
	}
	if r.total == 0 {
		return nil, named(o.Text, fmt.Errorf("%w: a text of %d tokens has none to score",
			pack.ErrUnsupported, len(ids)))
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.close()
	for _, w := range windows {
		if err := r.window(ctx, w); err != nil {
			return nil, err
		}
	}
	return r.result(len(windows)), nil
}

// named adds the path of the file that an error is about, if it is known.
func named(path string, err error) error {
	if path == "" {
		return err
	}
	return filerr.Named(path, err)
}

func (o *Options) complete(e, other *engine.Engine) error {
	most := e.Options().Context
	if other != nil {
		most = min(most, other.Options().Context)
		if a, b := e.Description().Vocab, other.Description().Vocab; a != b {
			return fmt.Errorf("%w: the models have vocabularies of %d and %d tokens: their predictions "+
				"cannot be compared",
				pack.ErrUnsupported, a, b)
		}
	}
	if o.Window == 0 {
		o.Window = min(most, DefaultWindow)
	}
	if o.Stride == 0 {
		o.Stride = o.Window
	}
	switch {
	case o.Window < 2 || o.Window > most:
		return optionf("%w: a window of %d tokens; the models take between 2 and %d", pack.ErrUnsupported,
			o.Window, most)
	case o.Stride < 1 || o.Stride > o.Window:
		return optionf("%w: a stride of %d tokens; it must be between 1 and the window of %d", pack.ErrUnsupported,
			o.Stride, o.Window)
	}
	return nil
}

func optionf(format string, args ...any) error {
	return &engine.OptionError{Err: fmt.Errorf(format, args...)}
}

// span is one window: tokens [begin, end) are in it, [first, end) are scored. The first kept tokens that the model
// reads are those of the window before.
type span struct{ begin, first, end, kept int }

func (r *runner) windows() (list []span) {
	for begin, scored := 0, 0; scored < len(r.ids); begin += r.o.Stride {
		w := span{begin: begin, first: scored, end: min(begin+r.o.Window, len(r.ids))}
		scored = w.end
		if r.bos < 0 {
			w.first = max(w.first, begin+1)
		}
		list = append(list, w)
	}
	return list
}

func (r *runner) result(windows int) *Result {
	x := &Result{Tokens: len(r.scores), Windows: windows, Window: r.o.Window, Stride: r.o.Stride,
		BeginOfText:     r.bos >= 0,
		Seconds:         r.took.Seconds(),
		TokensPerSecond: float64(r.read) / max(r.took, time.Nanosecond).Seconds(),
		scores:          r.scores}
	x.MeanNLL, x.PerplexityError = r.mean(func(s score) float64 { return s.nll })
	x.Perplexity = exp(x.MeanNLL)
	x.PerplexityError *= x.Perplexity
	if r.other != nil {
		x.Against = r.against()
	}
	return x
}

func (r *runner) against() *Against {
	a := &Against{MaxAt: r.scores[0].at}
	other, _ := r.mean(func(s score) float64 { return s.other })
	a.Perplexity = exp(other)
	logRatio, deviation := r.mean(func(s score) float64 { return s.nll - s.other })
	a.Ratio = exp(logRatio)
	a.RatioError = a.Ratio * deviation
	a.MeanKL, a.MeanKLError = r.mean(func(s score) float64 { return s.kl })
	a.Top1, a.Top1Error = r.mean(func(s score) float64 {
		if s.same {
			return 1
		}
		return 0
	})
	all := make([]float64, len(r.scores))
	for i, s := range r.scores {
		if all[i] = s.kl; s.kl > a.MaxKL {
			a.MaxKL, a.MaxAt = s.kl, s.at
		}
	}
	slices.Sort(all)
	a.P99KL = all[(99*len(all)+99)/100-1] // nearest rank
	return a
}

// mean of a figure over all scores, and its standard error: deviation/√n.
func (r *runner) mean(of func(score) float64) (mean, standardError float64) {
	n, square := float64(len(r.scores)), 0.0
	for _, s := range r.scores {
		mean += of(s)
	}
	mean /= n
	for _, s := range r.scores {
		d := of(s) - mean
		square += float64(d * d)
	}
	return mean, math.Sqrt(square) / n
}

func exp(x float64) float64 { return tensor.Exp64(min(x, 700)) }
