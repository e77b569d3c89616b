package device

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// The limits of the work that is submitted at once: drivers end devices that do not answer for a second or two.
const (
	submitTarget = 100 * time.Millisecond
	waitLimit    = 60 * time.Second // the first submit of a step may compile its kernel
)

// mostRecorded bounds the recorded passes that are kept.
const mostRecorded = 64

// Pass is a model on a device, ready to compute. It is used by one goroutine at a time.
type Pass struct {
	*plan
	backend  Backend
	bytes    int
	recorded []recorded
	layer    time.Duration // what a layer took for a token in the last submit; 0 = not known
	uses     int
}

// shapeOf names recorded steps: layers [from, to) for n tokens, or the head for n tokens.
type shapeOf struct {
	n, span, from, to int
	head, top         bool // top: and then the largest logits
}

type recorded struct {
	shapeOf
	commands Commands
	used     int
}

// Input is what a pass computes: Tokens and the numbers that the host has worked out for them.
type Input struct {
	Tokens []Token
	Pages  []uint32
	Trig   []float32 // [n][2][Rot]: N17
	H      []float32 // [n][Hidden]: the residual stream in front of the layers; the embeddings if these are all
	Span   int       // length of the longest attention span
}

// Load makes the plan of a model, checks that it fits, and uploads its weights. It owns the backend from then on, also
// after an error.
func Load(b Backend, m *Model, s Shape) (*Pass, error) {
	a := &arena{backend: b, info: b.Info()}
	p, err := newPlan(m, s, a)
	if err == nil {
		err = a.allocate()
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return &Pass{plan: p, backend: b, bytes: a.total}, nil
}

// Info describes the device.
func (p *Pass) Info() Info { return p.info }

// Most is the number of tokens that Run takes at once, and of rows that Logits does.
func (p *Pass) Most() (tokens, rows int) { return p.Tokens, p.Rows }

// Bytes is the memory that the pass takes on the device.
func (p *Pass) Bytes() int { return p.bytes }

// Close frees the device.
func (p *Pass) Close() error { return p.backend.Close() }

// Run computes all layers for some tokens.
func (p *Pass) Run(in *Input) error {
	n := len(in.Tokens)
	fresh := make([]uint32, n)
	for t := range fresh {
		fresh[t] = NoStep
	}
	for _, u := range []struct {
		to   *slot
		data []byte
	}{{p.inputs.tokens, bytesOf(in.Tokens)}, {p.inputs.pages, bytesOf(in.Pages)}, {p.inputs.trig, bytesOf(in.Trig)},
		{p.inputs.flags, bytesOf(fresh)}, {p.work.h, bytesOf(in.H)}} {
		if len(u.data) == 0 {
			continue
		}
		if err := p.backend.Upload(u.to.Part(0, len(u.data)), u.data); err != nil {
			return err
		}
	}
	step, span := p.layersAtOnce(n), p.span(in.Span)
	for from := 0; from < len(p.blocks); from += step {
		to := min(from+step, len(p.blocks))
		if err := p.submit(shapeOf{n: n, span: span, from: from, to: to}); err != nil {
			return err
		}
	}
	return nil
}

// layersAtOnce is the number of layers of a submit: one, until it is known how long that takes. It is all, or a power
// of two, so that recorded passes can be used again.
func (p *Pass) layersAtOnce(n int) int {
	if p.layer == 0 {
		return 1
	}
	most := max(1, int(submitTarget/(p.layer*time.Duration(n)+1)))
	if most >= len(p.blocks) {
		return len(p.blocks)
	}
	return 1 << (bits.Len(uint(most)) - 1)
}

// submit runs the steps of a shape, recorded before or now.
func (p *Pass) submit(s shapeOf) error {
	c, err := p.commands(s)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := c.Run(waitLimit); err != nil {
		return err
	}
	if !s.head {
		p.layer = time.Since(start) / time.Duration(s.n*(s.to-s.from))
	}
	return nil
}

func (p *Pass) commands(s shapeOf) (Commands, error) {
	p.uses++
	for i := range p.recorded {
		if r := &p.recorded[i]; r.shapeOf == s {
			r.used = p.uses
			return r.commands, nil
		}
	}
	rec := &recorder{plan: p.plan, n: s.n, span: s.span}
	switch {
	case !s.head:
		rec.layers(s.from, s.to)
	case s.top:
		rec.logits()
		rec.tops()
	default:
		rec.logits()
	}
	c, err := p.backend.Record(rec.steps)
	if err != nil {
		return nil, err
	}
	made := recorded{s, c, p.uses}
	if len(p.recorded) < mostRecorded {
		p.recorded = append(p.recorded, made)
		return c, nil
	}
	oldest := 0
	for i := range p.recorded {
		if p.recorded[i].used < p.recorded[oldest].used {
			oldest = i
		}
	}
	p.recorded[oldest].commands.Free()
	p.recorded[oldest] = made
	return c, nil
}

// Residual copies the residual stream after the last layer, of tokens of the last Run from token first on:
// [len(dst)/Hidden][Hidden].
func (p *Pass) Residual(first int, dst []float32) error {
	return p.backend.Download(bytesOf(dst), p.work.h.Part(first*p.Hidden*4, len(dst)*4))
}

// computeHead computes the logits of tokens of the last Run, and perhaps the largest of them.
func (p *Pass) computeHead(rows []uint32, top bool) error {
	if err := p.backend.Upload(p.inputs.rows.Part(0, 4*len(rows)), bytesOf(rows)); err != nil {
		return err
	}
	return p.submit(shapeOf{n: len(rows), head: true, top: top})
}

// Logits computes the logits of tokens of the last Run, and stores them.
func (p *Pass) Logits(rows []uint32, dst [][]float32) error {
	if err := p.computeHead(rows, false); err != nil {
		return err
	}
	for r, to := range dst {
		if err := p.backend.Download(bytesOf(to), p.work.logits.Part(r*p.Vocab*4, p.Vocab*4)); err != nil {
			return err
		}
	}
	return nil
}

// HasTop reports whether the device has a kernel for Top.
func (p *Pass) HasTop() bool { return len(p.work.tops) > 0 }

// Top computes the TopMost largest logits of tokens of the last Run, in the order of N21, and stores them; the others
// become −Inf. Only these cross to the host. All of them are computed, and the flags tell of all.
func (p *Pass) Top(rows []uint32, dst [][]float32) error {
	if err := p.computeHead(rows, true); err != nil {
		return err
	}
	last := p.work.tops[len(p.work.tops)-1].pairs
	pairs := make([]uint32, len(rows)*TopMost*2)
	if err := p.backend.Download(bytesOf(pairs), last.Part(0, len(rows)*TopMost*pairBytes)); err != nil {
		return err
	}
	for r, to := range dst {
		for i := range to {
			to[i] = float32(math.Inf(-1))
		}
		for pair := range slices.Chunk(pairs[r*TopMost*2:][:TopMost*2], 2) {
			if value, id := pair[0], pair[1]; id < uint32(len(to)) { // NoToken is not
				to[id] = math.Float32frombits(value)
			}
		}
	}
	return nil
}

// Flags returns the flags of the tokens of the last Run, after all Logits.
func (p *Pass) Flags(n int) ([]uint32, error) {
	flags := make([]uint32, n)
	return flags, p.backend.Download(bytesOf(flags), p.inputs.flags.Part(0, 4*n))
}

// CopyPage copies a page of the KV cache of all layers.
func (p *Pass) CopyPage(to, from int) error {
	n := p.pageBytes()
	for i := range p.blocks {
		for _, s := range []*slot{p.blocks[i].keys, p.blocks[i].values} {
			if err := p.backend.Copy(s.Part(to*n, n), s.Part(from*n, n)); err != nil {
				return fmt.Errorf("copying a page of the KV cache: %w", err)
			}
		}
	}
	return nil
}
