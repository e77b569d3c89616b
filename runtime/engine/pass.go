package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// pass is one trip of up to Options.Batch tokens through the model: their places and the memory that they need. All of
// it is allocated once.
type pass struct {
	batch  []Chunk // of the Forward that is running
	tokens []token
	h      []float32   // [n][Hidden]: the residual stream
	x      []float32   // [n][projection.in]: input of the next linear layers
	quant  activations // the same, quantized
	sums   []float32   // [n][projection.width]: sums of the same, which minima multiply
	moved  []float32   // [n][projection.in]: the same in another order; nil where no matrix has one
	y      []float32   // [n][projection.out]: output of the last linear layers
	others [][]float32 // weights of the next linear layers that Options.Observe has given

	rotary    rotary
	attention attention
	gate      tensor.Gate
	mix       mixing
	all       []int // 0 … batch − 1
	finiteCheck

	headRows int       // tokens whose logits are computed at once
	rows     []int     // these tokens
	logits   []float32 // [headRows][Vocab]

	kept       []bool    // [Vocab]: scratch of the screen
	best       []float32 // the same
	candidates []int32   // rows of the head that the screen leaves

	// The tasks besides those of attention, kept here so that handing one to the pool allocates nothing.
	embed   embedTask
	prepare prepareTask
	product product
	split   splitTask
	post    postTask
	screen  screenTask
	exact   exactTask
	finish  finishTask
}

// activations is room for quantized vectors, by projection.in and number of its order.
type activations map[int][]*kernel.Activations

// token is one position of a pass.
type token struct {
	seq    *Sequence
	chunk  int // index in the batch
	pos    int
	id     int
	logits []float32 // where its logits go; nil = not wanted
	top    int       // as in Chunk
	keep   []int
}

// mostHeadRows: a head of int8 is read from memory once for so many tokens. Twice as many would gain less than half as
// much, for twice the room.
const mostHeadRows = 32

// shape of the memory of a pass.
type passShape struct {
	batch, headRows int
	in, out, sums   int // elements per token
	experts, scores int // of a block, at most; scores of experts are one more if they share one
	mlps            int // experts of a block, with the one that tokens share
}

// passShape derives it from the weights.
func (e *Engine) passShape() passShape {
	d := e.desc
	s := passShape{batch: e.opt.Batch, headRows: min(mostHeadRows, e.opt.Batch),
		in: max(d.Hidden, d.Intermediate, d.Heads*d.HeadDim)}
	s.sums = e.weights.head.width
	for i := range e.weights.blocks {
		b := &e.weights.blocks[i]
		for _, f := range b.projections() {
			s.in, s.out, s.sums = max(s.in, f.in), max(s.out, f.out), max(s.sums, f.width)
		}
		if b.experts != nil {
			s.experts, s.scores, s.mlps = max(s.experts, len(b.experts.each)), max(s.scores,
				b.experts.router.out), max(s.mlps, b.mlps())
		}
	}
	if e.weights.screen != nil {
		s.headRows = max(s.headRows, screenSpace)
	}
	return s
}

// passBytes is the memory of a pass, up to what is small.
func (e *Engine) passBytes() float64 {
	s, d := e.passShape(), e.desc
	_, scores := e.attentionScores()
	perToken := d.Hidden + s.in*2 + s.out + s.sums + 2*d.Heads*e.width()
	if s.experts > 0 {
		perToken += 4*s.in + d.Hidden + s.scores + 2*s.experts // of the four, three are room of waves
	}
	return 4 * (float64(s.batch)*float64(perToken) + float64(s.headRows)*float64(d.Vocab) + float64(scores))
}

// newPass allocates the pass.
func (e *Engine) newPass() {
	d, s, p := e.desc, e.passShape(), &e.pass
	floats := func(n int) []float32 { return make([]float32, s.batch*n) }
	*p = pass{
		tokens: make([]token, 0, s.batch), finiteCheck: finiteCheck{bad: make([]bool, s.batch)},
		h: floats(d.Hidden), x: floats(s.in), sums: floats(s.sums), y: floats(s.out),
		headRows: s.headRows, rows: make([]int, 0, s.headRows), logits: make([]float32, s.headRows*d.Vocab),
		quant: activations{}, gate: gateOf(d), attention: e.newAttention(), rotary: newRotary(&d.Rope, s.batch),
		mix: newMixing(&s, d.Hidden), all: make([]int, s.batch),
	}
	for t := range p.all {
		p.all[t] = t
	}
	for i := range e.weights.blocks {
		b := &e.weights.blocks[i]
		own := []*projection{&b.qkv, &b.o, &b.gateUp, &b.down}
		if b.experts != nil {
			own = own[:2]
			e.quantizeExperts(b)
		}
		for _, f := range own {
			e.quantizeFor(p.quant, f, s.batch)
		}
	}
	e.quantizeFor(p.quant, &e.weights.head, s.batch)
	if e.weights.screen != nil {
		p.kept, p.best = make([]bool, d.Vocab), make([]float32, 0, d.Vocab/screenMost+1)
		p.candidates = make([]int32, 0, d.Vocab)
	}
}

// gateOf gives N19.
func gateOf(d *model.Description) tensor.Gate {
	if d.Activation == "clamped_swiglu" {
		return tensor.ClampedGate(d.GateAlpha, d.GateLimit)
	}
	return tensor.Gates[string(d.Activation)]
}

// quantizeFor makes room for the quantized input of a projection, of some tokens.
func (e *Engine) quantizeFor(quant activations, f *projection, tokens int) {
	p := &e.pass
	for i, order := range f.orders {
		if i == len(quant[f.in]) {
			quant[f.in] = append(quant[f.in], kernel.NewGroupedActivations(tokens, f.in, e.group))
		}
		if order != nil && p.moved == nil {
			p.moved = make([]float32, len(p.x))
		}
	}
}

// begin takes up the tokens that have been gathered.
func (p *pass) begin() {
	p.forget()
	p.attention.begin(p.tokens)
}
