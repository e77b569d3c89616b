package reference

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Model is a model of a packed file, ready to compute. The view must stay open while it is used.
type Model struct {
	d         *model.Description
	gate      func(gate, up float32) float32
	cache     string // its format
	embed     embedding
	places    *floats // rows that positions add to embeddings; nil = none
	embedNorm norm
	slopes    []float32 // of the heads, for ALiBi; nil = none
	matrices  streams
	inputs    layerInputs
	blocks    []block
	final     norm
	head      linear
	after     func(layer int, h [][]float32) // when not nil: called with the residual stream after every layer
}

// block holds the weights of one layer.
type block struct {
	attnNorm, qNorm, kNorm, attnSubNorm, attnPostNorm norm
	ffnNorm, ffnSubNorm, ffnPostNorm, vNorm           norm

	q, k, v, o linear
	attnGate   linear // of the output of attention; without a name there is none
	mixer      *mixer // recurrent layer in place of attention, or beside it; nil = none
	both       bool   // beside it
	mlp
	latent  *latent  // nil = keys and values of each head
	experts *mixture // nil = the block has the MLP alone
	beside  *beside  // of the experts, beside the MLP; nil = none
	still   bool     // it has neither

	shape        model.HeadShape
	scale        float32 // of attention scores
	keysAsValues bool    // values are keys before norm and rotation (N76)
	scalar       float32 // of the residual stream behind the block (N77)

	kvOf       int // number of the layer, from 1, whose keys and values it reads; 0 = its own
	altUp      *altUp
	laurel     *laurel
	layerInput *layerInput

	rope   rope
	noRope bool
	staged bool      // the rotation depends on the length of the text (N67)
	window int       // visible positions; 0 = all
	sinks  []float32 // of the heads; nil = none
}

// New builds the model that d describes from the tensors of v. It refuses tensors that are missing or of another shape
// than d asks for.
func New(v packed.View, d *model.Description) (*Model, error) {
	if err := checkConfig(d); err != nil {
		return nil, err
	}
	m := &Model{d: d, gate: gateOf(d), cache: CacheF32, slopes: slopesOf(d),
		blocks: make([]block, len(d.Blocks))}
	var err error
	if m.embed, err = openEmbedding(v, d); err != nil {
		return nil, err
	}
	if d.Positions != "" {
		if m.places, err = openFloats(v, d.Positions, d.MaxPositions+d.FirstPosition, d.Hidden); err != nil {
			return nil, err
		}
	}
	if m.embedNorm, err = openNorm(v, d, d.EmbedNorm, d.Hidden); err != nil {
		return nil, err
	}
	if m.matrices, err = openStreams(v, d); err != nil {
		return nil, err
	}
	if m.inputs, err = openLayerInputs(v, d); err != nil {
		return nil, err
	}
	for i := range d.Blocks {
		if m.blocks[i], err = openBlock(v, d, &d.Blocks[i]); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	if m.final, err = openNorm(v, d, d.FinalNorm, d.Hidden); err != nil {
		return nil, err
	}
	m.head, err = openLinear(v, model.Linear{Weight: d.Head, Bias: d.HeadBias, In: d.Hidden, Out: d.Vocab})
	return m, err
}

// checkConfig refuses numbers that no forward pass could use.
func checkConfig(d *model.Description) error {
	for _, n := range []struct {
		name  string
		value int
	}{
		{"hidden size", d.Hidden}, {"heads", d.Heads}, {"vocabulary", d.Vocab}, {"layers", len(d.Blocks)},
	} {
		if n.value < 1 || n.value > pack.MaxDim {
			return fmt.Errorf("%w: model: %s is %d", pack.ErrCorrupt, n.name, n.value)
		}
	}
	if err := checkHeads(d); err != nil {
		return err
	}
	if d.Rope.Dim > 0 && !(d.Rope.Theta > 0) {
		return fmt.Errorf("%w: model: rotary base %v", pack.ErrCorrupt, d.Rope.Theta)
	}
	if r := &d.Rope; r.StillBeta != 0 && r.StillSpan < 1 {
		return fmt.Errorf("%w: model: queries that do not rotate grow after %d positions", pack.ErrCorrupt, r.StillSpan)
	}
	if clamped := d.Activation == "clamped_swiglu"; !clamped && !knownActivation(d) ||
		clamped && !(d.GateAlpha > 0 && d.GateLimit > 0) {
		return fmt.Errorf("%w: model: activation %q", pack.ErrUnsupported, d.Activation)
	}
	for i := range d.Blocks {
		if err := checkBlock(d, &d.Blocks[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if err := checkShared(d, i); err != nil {
			return err
		}
	}
	return checkStreams(d)
}

// checkShared checks whose keys and values a block reads.
func checkShared(d *model.Description, i int) error {
	b := &d.Blocks[i]
	if of := b.KVOf; of != 0 && (of > i || of < 0 || !d.Blocks[of-1].Caches() || b.MLA != nil || b.Mixer != nil ||
		b.AttnGate.Weight != "" || d.HeadShape(b) != d.HeadShape(&d.Blocks[of-1])) {
		return fmt.Errorf("%w: model: layer %d reads keys and values of layer %d", pack.ErrCorrupt, i, of-1)
	}
	if b.MLA != nil && (!b.VNorm.Skipped() || b.KeysAsValues) {
		return fmt.Errorf("%w: model: layer %d has a norm of values, or keys as values, and latent attention",
			pack.ErrCorrupt, i)
	}
	if b.KeysAsValues && (b.V.Weight != "" || b.KVOf != 0 || b.AttnGate.Weight != "") {
		return fmt.Errorf("%w: model: layer %d has keys as values, and values, or a gate", pack.ErrCorrupt, i)
	}
	return nil
}

// checkBlock checks the linear layers of a block against the widths of the model.
func checkBlock(d *model.Description, b *model.Block) error {
	shape := d.HeadShape(b)
	q, kv := d.Heads*shape.HeadDim, shape.KVHeads*shape.HeadDim
	var list []widths
	var err error
	switch {
	case b.Mixer != nil && !b.HasAttention():
		err = checkMixer(d, b.Mixer)
	case b.Mixer != nil && (b.MLA != nil || d.Latent != nil):
		err = fmt.Errorf("%w: model: a recurrent layer beside latent attention", pack.ErrUnsupported)
	case b.MLA != nil || d.Latent != nil:
		err = checkLatent(d, b)
	default:
		list = []widths{{&b.Q, d.Hidden, q}, {&b.K, d.Hidden, kv}, {&b.V, d.Hidden, kv}, {&b.O, q, d.Hidden}}
		if b.KVOf != 0 {
			list = []widths{{&b.Q, d.Hidden, q}, {&b.O, q, d.Hidden}}
		}
		if b.KeysAsValues {
			list = []widths{{&b.Q, d.Hidden, q}, {&b.K, d.Hidden, kv}, {&b.O, q, d.Hidden}}
		}
		if b.AttnGate.Weight != "" {
			list = append(list, widths{&b.AttnGate, d.Hidden, q})
		}
	}
	if b.Mixer != nil && err == nil {
		err = checkMixer(d, b.Mixer)
	}
	if err != nil {
		return err
	}
	width := b.Up.Out // of an MLP, or of a shared expert
	if b.Gate.Weight != "" {
		list = append(list, widths{&b.Gate, d.Hidden, width})
	}
	if b.Up.Weight != "" {
		if width < 1 || width > pack.MaxDim {
			return fmt.Errorf("%w: model: intermediate size is %d", pack.ErrCorrupt, width)
		}
		list = append(list, widths{&b.Up, d.Hidden, width}, widths{&b.Down, width, d.Hidden})
	}
	if err := checkWidths(list); err != nil {
		return err
	}
	return checkExperts(d, b)
}

// widths are those that a linear layer must have.
type widths struct {
	l       *model.Linear
	in, out int
}

func checkWidths(list []widths) error {
	for _, n := range list {
		if n.l.In != n.in || n.l.Out != n.out {
			return fmt.Errorf("%w: tensor %q takes %d values to %d; the model needs %d to %d", pack.ErrCorrupt,
				n.l.Weight,
				n.l.In, n.l.Out, n.in, n.out)
		}
	}
	return nil
}

func openBlock(v packed.View, d *model.Description, b *model.Block) (out block, err error) {
	out.openHeads(d, b)
	if out.qNorm, err = openHeadNorm(v, d, out.shape.HeadDim, b.QNorm, d.Heads); err != nil {
		return out, err
	}
	if out.kNorm, err = openHeadNorm(v, d, out.shape.HeadDim, b.KNorm, out.shape.KVHeads); err != nil {
		return out, err
	}
	for _, n := range []struct {
		dst  *norm
		from model.Norm
		size int
	}{
		{&out.attnNorm, b.AttnNorm, d.Hidden}, {&out.attnSubNorm, b.AttnSubNorm, d.Heads * out.shape.HeadDim},
		{&out.attnPostNorm, b.AttnPostNorm, d.Hidden}, {&out.vNorm, b.VNorm, out.shape.HeadDim},
		{&out.ffnNorm, b.FFNNorm, d.Hidden}, {&out.ffnSubNorm, b.FFNSubNorm, d.Intermediate}, {&out.ffnPostNorm,
			b.FFNPostNorm, d.Hidden},
	} {
		if *n.dst, err = openNorm(v, d, n.from, n.size); err != nil {
			return out, err
		}
	}
	if err = out.openMixing(v, d, b); err != nil {
		return out, err
	}
	if out.altUp, err = openAltUp(v, d, b.AltUp); err != nil {
		return out, err
	}
	if out.laurel, err = openLaurel(v, d, b.Laurel); err != nil {
		return out, err
	}
	if out.layerInput, err = openLayerInput(v, d, b.LayerInput); err != nil {
		return out, err
	}
	if out.scalar, err = openScalar(v, b.Scalar); err != nil {
		return out, err
	}
	out.kvOf = b.KVOf
	if out.latent, err = openLatent(v, d, b.MLA); err != nil {
		return out, err
	}
	switch {
	case !b.HasMLP():
		out.still = true
	case b.Experts != nil:
		if out.experts, err = openMixture(v, d, b); err == nil {
			err = out.openBeside(v, d, b)
		}
	default:
		out.mlp, err = openMLP(v, 0, &b.Gate, &b.Up, &b.Down)
	}
	if err != nil {
		return out, err
	}
	out.sparsity = b.Sparsity
	if b.ActParams != nil {
		if out.act, err = openXIELU(v, b.ActParams); err != nil {
			return out, err
		}
	}
	out.staged = stages(d, b)
	out.sinks, err = openVector(v, b.Sinks, d.Heads)
	return out, err
}

// openMixing opens the recurrent layer of a block, or the linear layers of its attention.
func (out *block) openMixing(v packed.View, d *model.Description, b *model.Block) (err error) {
	if b.Mixer != nil {
		out.both = b.HasAttention()
		if out.mixer, err = openMixer(v, d, b.Mixer); err != nil || !out.both {
			return err
		}
	}
	for _, x := range []struct {
		to   *linear
		from model.Linear
	}{{&out.q, b.Q}, {&out.k, b.K}, {&out.v, b.V}, {&out.o, b.O}, {&out.attnGate, b.AttnGate}} {
		none := (b.MLA != nil || b.KeysAsValues) && x.to == &out.v ||
			b.KVOf != 0 && (x.to == &out.k || x.to == &out.v)
		if x.from.Weight == "" && (none || x.to == &out.attnGate) {
			continue
		}
		if *x.to, err = openLinear(v, x.from); err != nil {
			return err
		}
	}
	return nil
}

// scaleOf is what scores are multiplied by, windowOf the visible positions of a block, 0 for all (N18).
func scaleOf(d *model.Description, b *model.Block) float32 {
	if d.Latent != nil {
		return latentScale(d)
	}
	if d.AttnScale == 0 {
		return 1 / sqrt(float32(d.HeadShape(b).HeadDim))
	}
	return d.AttnScale
}

// ropeOf is the rotation of a block; without one no pair is rotated.
func ropeOf(d *model.Description, b *model.Block) rope {
	if b.NoRope {
		return rope{}
	}
	return newRope(d.Rope, b.Local, 0)
}

func windowOf(d *model.Description, b *model.Block) int {
	if b.Local {
		return d.SlidingWindow
	}
	return 0
}

// sink of a head, −Inf where it has none.
func (b *block) sink(head int) float32 {
	if b.sinks == nil {
		return float32(math.Inf(-1))
	}
	return b.sinks[head]
}
