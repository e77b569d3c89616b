package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// screen finds the rows of the output head that can hold the largest logits, by int8 rows of half its size: exact
// integers give every logit up to a bounded error, and only rows whose upper bound reaches the k-th largest lower bound
// are computed from the head itself. So the k largest logits are the same, bit for bit, as without a screen.
//
// The bound. Row m of the head is W, its code row c with scale s; K columns; x is the input. FORMAT F21 says
// |W − s·c| ≤ 0.501·s. x is written as d·q + r with q = 255·hi + lo and hi, lo two int8 vectors, so that |r| ≤ 0.51·d
// elementwise with d = max|x| / 32512. Then
//
//	|W·x − s·d·(c·q)| ≤ Σ|W − s·c||x| + s·Σ|c||r| ≤ s·(0.501·‖x‖₁ + 128·0.51·d·K)
//
// and the logit as N6 computes it differs from W·x by less than γ·Σ|W||x| ≤ γ·128.6·s·‖x‖₁, γ = (K/16 + 6)·2⁻²⁴: an
// element is rounded K/16 times in its lane, rounded up, and four times in the tree. The total is s·C with a C that is
// the same for all rows.
//
// Values that overflow must be an error with a screen as without one (N4). An x that is not finite has no bounds and is
// noted; a row with a partial sum that can overflow, which is at most 128.6·s·‖x‖₁, is computed from the head itself.
type screen struct {
	codes  *kernel.Weights
	scales []float32
	x      *kernel.Activations // [2·screenRows]: hi and lo of each input
}

const (
	screenRows  = 8      // inputs that are screened at once: enough to be bound by arithmetic, not by memory
	screenSpace = 2      // rows of logits that the sums, and later the bounds, of one input occupy
	screenMost  = 1 << 2 // the share of the head that may be computed afterwards; beyond it all of it is
	tinyWeight  = 1.5e-36
)

// loadScreen binds the screen of a file that has one and whose head can use it.
func (l *loader) loadScreen() *screen {
	d, head := l.desc, &l.weights.head
	entry, ok := l.view.Manifest().Entry(packed.ScreenName)
	if !ok || l.err != nil || l.opt.FloatActivations {
		return nil
	}
	m, err := l.codes(entry, []int{d.Vocab, d.Hidden})
	switch {
	case err != nil:
	case entry.Layout.Alphabet != pack.Int8.Name || len(m.scales) != d.Vocab || m.codes.Groups() != 1 || entry.Zero ||
		entry.Order:
		err = fmt.Errorf("%w: a screen has int8 codes and one scale per row (F21)", pack.ErrCorrupt)
	case len(head.matrices) != 1 || head.matrices[0].floats == nil:
		err = fmt.Errorf("%w: a screen stands beside a head of floats (F21)", pack.ErrCorrupt)
	}
	if err != nil {
		l.fail(packed.ScreenName, err)
		return nil
	}
	if d.LogitSoftcap != 0 || d.LogitDivisor != 0 || d.LogitScale != 0 || d.HeadBias != "" {
		return nil // none of them is guaranteed to keep adjacent values distinct
	}
	return &screen{codes: m.codes, scales: m.scales, x: kernel.NewActivations(2*screenRows, d.Hidden)}
}

// screened reports whether the logits of a token can be screened.
func (e *Engine) screened(t *token) bool {
	return e.weights.screen != nil && t.top != 0 && t.top+len(t.keep) <= e.desc.Vocab/screenMost
}

// screenTask computes bounds of the logits of rows of the head.
type screenTask struct {
	*screen
	vocab  int
	n      int
	sums   []int32   // [2n][Vocab]: of hi and of lo of each input
	bounds []float32 // the same memory: lower and upper bounds
	split  [screenRows]split
}

// split holds the parameters of an input that bounds depend on.
type split struct {
	step  float64 // d
	bound float64 // C
	tiny  float64 // for rows without a scale
	huge  float64 // rows with a larger scale may overflow
}

// low and high return the bounds of input r.
func (k *screenTask) low(r int) []float32  { return k.bounds[2*r*k.vocab:][:k.vocab] }
func (k *screenTask) high(r int) []float32 { return k.bounds[(2*r+1)*k.vocab:][:k.vocab] }

// split writes the input of row r, which is finite, as 255·hi + lo.
func (s *screen) split(r int, x []float32) split {
	hi, lo := s.x.Row(2*r), s.x.Row(2*r+1)
	d := math.Max(float64(tensor.MaxAbs(x)), 1e-30) / tensor.MaxCode16
	norm := 0.0
	for k, v := range x {
		norm += math.Abs(float64(v))
		hi[k], lo[k] = tensor.SplitCode(int(math.RoundToEven(float64(v) / d)))
	}
	n := float64(len(x))
	gamma := (n/16 + 6) * 0x1p-24
	return split{
		step:  d,
		bound: 1.001 * ((0.501+128.6*gamma)*norm + 128*0.51*d*n),
		tiny:  1.001 * tinyWeight * norm,
		huge:  math.MaxFloat32 / (129 * norm),
	}
}

func (k *screenTask) Do(from, to int) {
	s, vocab := k.screen, k.vocab
	s.codes.Mul(k.sums, vocab, s.x, from, to)
	m0, m1 := from*s.codes.PanelRows(), min(to*s.codes.PanelRows(), vocab)
	for r := range k.n {
		hi, lo, low, high, x := k.sums[2*r*vocab:], k.sums[(2*r+1)*vocab:], k.low(r), k.high(r), &k.split[r]
		for m := m0; m < m1; m++ {
			scale := float64(s.scales[m])
			y := scale * x.step * float64(255*int64(hi[m])+int64(lo[m]))
			b := scale*x.bound + x.tiny + 1e-6*math.Abs(y) // the last for the rounding to float32
			low[m], high[m] = float32(y-b), float32(y+b)
			if scale > x.huge {
				low[m], high[m] = float32(math.Inf(-1)), float32(math.Inf(1))
			}
		}
	}
}

// exactTask computes the logits of some rows of the head.
type exactTask struct {
	head *tensor.Matrix
	x, y []float32
	rows []int32
}

func (k *exactTask) Do(from, to int) {
	for _, m := range k.rows[from:to] {
		k.head.Mul(tensor.Vectors{Data: k.y[m:]}, tensor.Vectors{Data: k.x}, 1,
			tensor.Range{From: int(m), To: int(m) + 1})
	}
}

// screenLogits computes the logits of the n tokens p.rows that can be among the largest, and the logits to keep; the
// others become −Inf. It reports false, and its results are void, when there are too many candidates.
func (e *Engine) screenLogits(n int) bool {
	p := &e.pass
	e.input(n, prepareTask{projection: &e.weights.head, src: p.h, stride: e.desc.Hidden, rows: p.rows,
		norm: &e.weights.norm})
	most := min(screenRows, p.headRows/screenSpace)
	for from := 0; from < n; from += most {
		if !e.screenSome(from, min(from+most, n)) {
			return false
		}
	}
	return true
}

// screenSome is screenLogits for the tokens p.rows[from:to], whose inputs are ready.
func (e *Engine) screenSome(from, to int) bool {
	p, s, n := &e.pass, e.weights.screen, to-from
	k := &p.screen
	*k = screenTask{screen: s, vocab: e.desc.Vocab, n: n, sums: asInt32(p.logits), bounds: p.logits}
	s.x.Reset(2 * n)
	for r := range n {
		x := p.x[(from+r)*e.desc.Hidden:][:e.desc.Hidden]
		if !tensor.AllFinite(x) {
			p.check(p.rows[from+r], false)
			clear(x) // any finite numbers: their results are unused
		}
		k.split[r] = s.split(r, x)
	}
	s.x.Finish()
	e.pool.Run(s.codes.Panels(), s.codes.Chunk(2*n, e.opt.Threads), k)
	for r := range n {
		if p.bad[p.rows[from+r]] {
			continue
		}
		tok := &p.tokens[p.rows[from+r]]
		p.choose(k.low(r), k.high(r), tok.top, tok.keep)
		if len(p.candidates) > e.desc.Vocab/screenMost {
			return false
		}
		e.exact(from+r, tok.logits)
	}
	return true
}

// choose sets candidates to the rows that may hold the top largest logits, and to the rows to keep. The latter do not
// count among the former: a sampler may make them smaller.
func (p *pass) choose(low, high []float32, top int, keep []int) {
	for _, m := range keep {
		p.kept[m] = true
	}
	best := p.best[:0] // the largest lower bounds, ascending
	for m, v := range low {
		if (len(best) < top || v > best[0]) && !p.kept[m] {
			if len(best) == top {
				best = best[:copy(best, best[1:])]
			}
			i, _ := slices.BinarySearch(best, v)
			best = slices.Insert(best, i, v)
		}
	}
	p.candidates = p.candidates[:0]
	for m, v := range high {
		if p.kept[m] || v >= best[0] {
			p.candidates = append(p.candidates, int32(m))
		}
	}
	for _, m := range keep {
		p.kept[m] = false
	}
}

// exact fills in the logits of p.candidates.
func (e *Engine) exact(r int, logits []float32) {
	p := &e.pass
	for i := range logits {
		logits[i] = float32(math.Inf(-1))
	}
	p.exact = exactTask{e.weights.head.matrices[0].floats, p.x[r*e.desc.Hidden:], logits, p.candidates}
	distribute(e.pool, len(p.candidates), 8, &p.exact)
	for _, m := range p.candidates {
		p.check(p.rows[r], tensor.IsFinite(logits[m]))
	}
	e.screenedRows += len(p.candidates)
}
