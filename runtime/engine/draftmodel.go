package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine/internal/draft"
)

// DraftModel is a smaller model with the same vocabulary that drafts tokens for another model (Request.Drafts). Its
// methods may be called from any goroutine.
type DraftModel struct {
	e *Engine

	mu   sync.Mutex
	idle []heldText
}

// heldText is a sequence of a draft model, and the tokens in it: the next text may share a prefix with them.
type heldText struct {
	seq    *Sequence
	tokens []int
}

// NewDraftModel makes a draft model for sequences of e from a view of a packed file, which must stay open until Close.
// It has the same number of sequences, the same KV cache type, and uses the workers of e, which must be closed after
// it. The caller must make sure that its tokens mean the same: otherwise all drafts are rejected.
func (e *Engine) NewDraftModel(v packed.View) (*DraftModel, error) {
	d, err := describe(v)
	if err != nil {
		return nil, err
	}
	return e.newDraftModel(v, d)
}

func (e *Engine) newDraftModel(v packed.View, d *model.Description) (*DraftModel, error) {
	o := Options{Threads: e.opt.Threads, Context: min(e.opt.Context, d.MaxPositions), Sequences: e.opt.Sequences,
		CacheTokens: e.opt.CacheTokens, Cache: e.opt.Cache, NUMA: e.opt.NUMA}
	small, err := buildOn(e, v, d, o)
	if err != nil {
		return nil, err
	}
	return &DraftModel{e: small}, nil
}

// Close releases memory. No tokens may be drafted afterwards.
func (m *DraftModel) Close() { m.e.Close() }

// take opens a sequence for the tokens, reusing a held one with a common prefix.
func (m *DraftModel) take(tokens []int) (heldText, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.idle) - 1; n >= 0 {
		t := m.idle[n]
		m.idle = m.idle[:n]
		same := 0
		for same < min(len(t.tokens), len(tokens)) && t.tokens[same] == tokens[same] {
			same++
		}
		t.seq.Truncate(same)
		return t, nil
	}
	seq, err := m.e.NewSequence()
	return heldText{seq: seq}, err
}

// give keeps a sequence for the next text.
func (m *DraftModel) give(t heldText) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, t)
}

// modelDrafter drafts with the same sampling settings, and the same random numbers, with which the text itself is
// sampled: so even at a temperature above 0, a guess is right where both models agree.
type modelDrafter struct {
	e       *Engine
	seq     *Sequence
	text    []int
	held    int   // leading tokens of the sequence that equal the text
	ahead   []int // guesses after the end of the text
	chooses *Sampler
	guesses *Sampler
	vocab   int // of the text
	worth   *draft.Priced
	logits  []float32
	failed  bool
}

// newModelDrafter starts drafting for a generation. end must be called when the generation has ended.
func (g *Generation) newModelDrafter(m *DraftModel) (d *modelDrafter, end func(), err error) {
	r := &g.request
	text := slices.Concat(r.History, r.Prompt)
	vocab := m.e.desc.Vocab
	d = &modelDrafter{e: m.e, text: text, chooses: g.sampler, vocab: g.e.desc.Vocab, logits: make([]float32, vocab)}
	if d.guesses, err = NewSampler(r.Sampling, vocab); err != nil {
		return nil, nil, err
	}
	for _, id := range text {
		d.accept(id)
	}
	d.worth = draft.NewPriced(g.costOrNone(), func() float64 { return m.e.price(g.e) })
	held, err := m.take(text[:max(0, len(text)-1)]) // the last token must be computed, for its logits
	if err != nil {
		return nil, nil, err
	}
	d.seq, d.held = held.seq, held.seq.Len()
	return d, func() { m.give(heldText{d.seq, d.text[:d.held]}) }, nil
}

// price is the cost of a guess as a multiple of a one-token pass of the other engine: estimated from the bytes that
// both read until it is measured.
func (e *Engine) price(of *Engine) float64 {
	small, large := e.costs.One(), of.costs.One()
	if small == 0 || large == 0 {
		return float64(e.WeightBytesTop()) / float64(of.WeightBytesTop())
	}
	return small / large
}

func (d *modelDrafter) accept(id int) {
	if id < d.e.desc.Vocab {
		d.guesses.Accept(id)
	}
}

func (d *modelDrafter) Add(token int) {
	d.worth.Add(token)
	d.accept(token)
	d.text = append(d.text, token)
	if len(d.ahead) > 0 && d.ahead[0] == token {
		d.held, d.ahead = min(d.held+1, d.seq.Len()), d.ahead[1:]
	} else {
		d.ahead = nil
	}
}

func (d *modelDrafter) Expect(most int) float64 {
	_, faster := d.worth.Length(d.room(most))
	return faster
}

// room is the number of tokens that the context leaves for guesses; 0 for a text that the draft model cannot compute.
func (d *modelDrafter) room(most int) int {
	if d.failed {
		return 0
	}
	return min(most, d.e.opt.Context-len(d.text)+1)
}

func (d *modelDrafter) Draft(ctx context.Context, most int) []int {
	n, _ := d.worth.Length(d.room(most))
	d.seq.Truncate(d.held)
	d.guesses.state = d.chooses.state
	known := len(d.guesses.ids)
	defer func() { d.guesses.forget(known) }()
	d.ahead = nil
	for next := d.text[d.held:]; len(d.ahead) < n; next = d.ahead[len(d.ahead)-1:] {
		guess, err := d.guess(ctx, next)
		if d.ahead == nil { // the next tokens may have to go
			d.seq.markNow()
		}
		d.failed = err != nil // if ctx is the cause, the text ends too
		if err != nil || guess >= d.vocab {
			break
		}
		d.ahead = append(d.ahead, guess)
	}
	d.worth.Drafted(d.ahead)
	return d.ahead
}

// guess appends tokens to the sequence and chooses what comes next.
func (d *modelDrafter) guess(ctx context.Context, tokens []int) (int, error) {
	step := Chunk{Seq: d.seq, Tokens: tokens, Logits: d.logits, Top: d.guesses.Top(), Keep: d.guesses.Penalized()}
	if err := d.e.Forward(ctx, []Chunk{step}); err != nil {
		return 0, err
	}
	d.held = min(d.seq.Len(), len(d.text))
	id := d.guesses.Next(d.logits)
	d.accept(id)
	return id, nil
}
