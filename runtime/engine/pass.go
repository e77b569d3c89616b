package engine

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// pass takes up to Options.Batch tokens through the model: their positions and the buffers. All of it is allocated
// once.
type pass struct {
	batch   []Chunk // of the Forward that is running
	tokens  []token
	h       []float32   // [n][Hidden]: the residual stream
	x       []float32   // [n][projection.in]: input of the next linear layers
	quant   activations // the same, quantized
	sums    []float32   // [n][projection.width]: sums of the same, which minima multiply
	moved   []float32   // [n][projection.in]: the same in another column order; nil where no matrix has one
	y       []float32   // [n][projection.out]: output of the last linear layers; of mostMLPTokens for gate and up apart
	wide    []float32   // [2n][projection.out]: output of both planes of their inputs; empty where there is one
	branch  []float32   // [n][Hidden]: output of attention where the MLP does not read it, or of an MLP beside experts
	ordered []float32   // [n][projection.out]: y of projections with scattered layers, in order; nil = there are none
	ones    []float32   // [projection.in, and channelPart at least]
	others  [][]float32 // weights of the next linear layers, returned by Options.Observe

	rotary    rotary
	attention attention
	runs      []run     // of these tokens; nil in a model without recurrent layers
	mixed     []float32 // [n][channels of a convolution]: nil without a space
	gate      tensor.Gate
	mix       mixing
	all       []int // 0 … batch − 1
	finiteCheck

	streams  streamState
	brought  []float32 // [n][Layers·LayerInputs.Size]: of the tokens, for all layers; nil = none
	beside   []float32 // [n][Hidden]: of Laurel; nil = none
	norming  normTask
	resize   resizeTask
	predicts predictTask
	corrects correctTask
	brings   bringTask
	lowRank  lowRankTask

	selected  []float32 // [n][selective.width]; nil without Mamba
	selection selectTask

	recurs    bool // the model has recurrent layers
	mlpTokens int  // whose gate and up are computed at once, where these are floats

	headRows int       // tokens whose logits are computed at once
	rows     []int     // indices of these tokens
	logits   []float32 // [headRows][Vocab]

	kept       []bool    // [Vocab]: scratch of the screen
	best       []float32 // [Vocab]: scratch of the screen
	candidates []int32   // rows of the head that pass the screen

	// The tasks other than attention, kept here so that submitting one to the pool does not allocate.
	embed   embedTask
	prepare prepareTask
	product product
	split   splitTask
	outputs outputGate
	order   inOrderTask
	post    postTask

	latentKeys    latentKeys
	latentQueries latentQueries
	latentValues  latentValues

	recurrent recurrentTask
	spaces    spaceTask
	heads     headTask
	gates     gateTask
	screen    screenTask
	exact     exactTask
	finish    finishTask
	hidden    hiddenTask
}

// activations holds buffers of quantized vectors, by projection.in and index of the column order.
type activations map[int][]*kernel.Activations

// token is one position of a pass.
type token struct {
	seq    *Sequence
	again  bool // only for a recurrent state or a sliding window: its other keys and values are in the cache
	chunk  int  // index in the batch
	pos    int
	id     int
	logits []float32 // destination of its logits; nil = not computed
	hidden []float32 // destination of its hidden state after the final norm; nil = not computed
	top    int       // as in Chunk
	keep   []int
}

// mostHeadRows is the number of tokens for which an int8 head is read from memory once. Twice as many would gain less
// than half as much, for twice the memory.
const mostHeadRows = 32

// passShape holds the sizes of the buffers of a pass.
type passShape struct {
	batch, headRows int
	in, out, sums   int // elements per token
	part            int // outputs of gate and up for as many tokens as are computed at once
	experts, scores int // per block, at most; one more score if they share an expert
	mlps            int // experts of a block, including the shared one
	mixed           int // channels of a convolution in front of a space
	selected        int // values that a token selects in a Mamba layer
	ordered         int // outputs of projections with scattered layers
}

// passShape derives the sizes from the weights.
func (e *Engine) passShape() passShape {
	d := e.desc
	s := passShape{batch: e.opt.Batch, headRows: min(mostHeadRows, e.opt.Batch), in: max(d.Hidden, d.Intermediate)}
	if l := d.Latent; l == nil {
		s.in = max(s.in, d.Heads*widest(e.headShapes()).dim)
	} else {
		s.out = d.Heads * l.Value
	}
	s.sums = e.weights.head.width
	for _, f := range e.weights.plain() {
		s.in, s.out = max(s.in, f.in), max(s.out, f.out)
	}
	for i := range e.weights.blocks {
		b := &e.weights.blocks[i]
		for _, f := range b.projections() {
			s.in, s.sums = max(s.in, f.in), max(s.sums, f.width)
			if f == &b.gateUp && b.runsApart() {
				s.part = max(s.part, min(mostMLPTokens, s.batch)*f.out)
			} else {
				s.out = max(s.out, f.out)
			}
			if len(f.scattered) > 0 {
				s.ordered = max(s.ordered, f.out)
			}
		}
		if b.recurrence != nil && b.recurrence.space != nil {
			s.mixed = max(s.mixed, b.recurrence.conv.channels)
		}
		if b.recurrence != nil && b.recurrence.selective != nil {
			s.selected = max(s.selected, b.recurrence.selective.width())
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

// outputs is the number of elements that the outputs of any projection have.
func (s *passShape) outputs() int { return max(s.batch*s.out, s.part) }

// passBytes is the memory of a pass, without small buffers.
func (e *Engine) passBytes() float64 {
	s, d := e.passShape(), e.desc
	_, scores := e.attentionScores()
	heads := 2 * d.Heads * widest(e.headShapes()).width
	perToken := s.mixed + s.selected + s.ordered + d.Hidden + s.in*2 + s.sums + heads
	if e.branches() {
		perToken += d.Hidden
	}
	perToken += streamFloats(d)
	if x := d.LayerInputs; x != nil {
		perToken += d.Layers * x.Size
	}
	if e.lowRanks() {
		perToken += d.Hidden
	}
	if s.experts > 0 {
		perToken += 4*s.in + d.Hidden + s.scores + 2*s.experts // of the four, three are room of waves
	}
	return 4 * (float64(s.outputs()) + float64(s.batch)*float64(perToken) + float64(s.headRows)*float64(d.Vocab) +
		float64(scores) + float64(e.wide(&s)))
}

// branches reports whether outputs of attention, of recurrent layers or of an MLP wait for others.
func (e *Engine) branches() bool {
	return e.desc.Parallel ||
		slices.ContainsFunc(e.weights.blocks, func(b block) bool { return b.both() || b.besideExperts() != nil })
}

// lowRanks reports whether a block has a linear layer of low rank beside attention.
func (e *Engine) lowRanks() bool {
	return slices.ContainsFunc(e.weights.blocks, func(b block) bool { return b.laurel != nil })
}

// newPass allocates the pass.
func (e *Engine) newPass() {
	d, s, p := e.desc, e.passShape(), &e.pass
	floats := func(n int) []float32 { return make([]float32, s.batch*n) }
	*p = pass{
		tokens: make([]token, 0, s.batch), finiteCheck: finiteCheck{bad: make([]bool, s.batch)},
		h: floats(d.Hidden), x: floats(s.in), sums: floats(s.sums), y: make([]float32, s.outputs()),
		wide: make([]float32, e.wide(&s)), mlpTokens: mostMLPTokens,
		headRows: s.headRows, rows: make([]int, 0, s.headRows), logits: make([]float32, s.headRows*d.Vocab),
		quant: activations{}, gate: gateOf(d), attention: e.newAttention(), rotary: newRotary(&d.Rope, s.batch),
		recurs: e.states.size > 0, runs: make([]run, 0, s.batch),
		mix: newMixing(&s, d.Hidden), all: make([]int, s.batch), ones: ones(max(s.in, channelPart)),
	}
	p.streams = newStreamState(d, s.batch)
	if x := d.LayerInputs; x != nil {
		p.brought = floats(d.Layers * x.Size)
	}
	if e.lowRanks() {
		p.beside = floats(d.Hidden)
	}
	if s.mixed > 0 {
		p.mixed = floats(s.mixed)
	}
	if s.selected > 0 {
		p.selected = floats(s.selected)
	}
	if s.ordered > 0 {
		p.ordered = floats(s.ordered)
	}
	if e.branches() {
		p.branch = floats(d.Hidden)
	}
	for t := range p.all {
		p.all[t] = t
	}
	for i := range e.weights.blocks {
		b := &e.weights.blocks[i]
		own := b.dense()
		if b.experts != nil {
			own = slices.Concat(b.mixers(), b.besideExperts(), b.beside())
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

// gateOf returns the gate of N19.
func gateOf(d *model.Description) tensor.Gate {
	if d.Activation == "clamped_swiglu" {
		return tensor.ClampedGate(d.GateAlpha, d.GateLimit)
	}
	return tensor.Gates[string(d.Activation)]
}

// quantizeFor allocates the quantized input of a projection for some number of tokens.
func (e *Engine) quantizeFor(quant activations, f *projection, tokens int) {
	p := &e.pass
	for i, order := range f.orders {
		if i == len(quant[f.in]) {
			quant[f.in] = append(quant[f.in], e.newActivations(tokens, f.in))
		}
		if order != nil && p.moved == nil {
			p.moved = make([]float32, len(p.x))
		}
	}
}

// begin prepares the pass for the gathered tokens.
func (p *pass) begin() {
	p.forget()
	p.attention.begin(p.tokens)
	if p.recurs {
		p.runs = runsOf(p.runs, p.tokens)
	}
}
