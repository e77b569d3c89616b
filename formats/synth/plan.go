package synth

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// tensor is one tensor of the checkpoint and its filler.
type tensor struct {
	safetensors.TensorInfo
	filler func() filler // made when the tensor is written, so that few tables exist at the same time
}

// planner turns a Description into tensors.
type planner struct {
	d       *model.Description
	dtype   safetensors.DType
	weights Weights
	seed    uint64
	zeros   float64
	equal   bool // the head equals the embedding
	trained *shape
	bias    map[string]bool
	decay   map[string]bool    // logarithms of the decay of recurrent states
	norms   map[string]bool    // of several dimensions
	plain   map[string]bool    // norms that multiply by their weights in any model
	numbers map[string]float64 // values of tensors with one
	out     map[string]bool    // linear layers that write to the residual stream
	list    []tensor
}

func newPlanner(d *model.Description, o *Options, method string, dtype safetensors.DType) (*planner, error) {
	p := &planner{
		d: d, dtype: dtype, weights: o.Weights, seed: o.Seed, zeros: o.Zeros, equal: o.EqualHead,
		bias: map[string]bool{}, out: map[string]bool{}, norms: map[string]bool{}, numbers: map[string]float64{},
		decay: map[string]bool{}, plain: map[string]bool{},
	}
	declared := map[model.Declared]Weights{
		model.Packed: Codes, model.AbsMean: AbsMean, model.Nothing: Normal, model.Masters: Normal,
	}[d.Quant.Declared]
	if d.Quant.Declared == model.Imported {
		declared = importedKinds[method]
	}
	if p.weights == ByConfig {
		p.weights = declared
	}
	if (p.weights == Codes) != (declared == Codes) || d.Quant.Declared == model.Imported && p.weights != declared {
		return nil, fmt.Errorf("%w: weights %q, but config.json declares %q weights",
			pack.ErrUnsupported, p.weights, declared)
	}
	if p.weights == AbsMean {
		p.trained = trained(p.zeros)
	}
	for _, name := range []string{d.HeadBias, d.FinalNorm.Bias, d.EmbedNorm.Bias} {
		p.bias[name] = name != ""
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		p.small(b)
		p.out[b.O.Weight], p.out[b.Down.Weight] = true, true
		if b.Experts != nil {
			if declared == Codes {
				return nil, fmt.Errorf("%w: packed codes of experts", pack.ErrUnsupported)
			}
			p.out[b.Experts.Down.Weight] = true
			for e := range b.Experts.Count {
				p.out[b.Experts.Down.Of(e)] = true
			}
		}
		if m := b.Mixer; m != nil {
			p.out[m.Out.Weight] = true
			p.bias[m.Conv.Bias] = m.Conv.Bias != ""
			if m.SSD != nil {
				p.bias[m.SSD.StepBias], p.decay[m.SSD.ALog] = true, true
			}
			if m.Delta != nil {
				p.bias[m.Delta.StepBias], p.decay[m.Delta.ALog], p.plain[m.Delta.Norm] = true, true, true
			}
			if m.Selective != nil {
				p.bias[m.Selective.StepBias], p.decay[m.Selective.ALog] = true, true
			}
		}
		for _, l := range b.Linears() {
			p.bias[l.Bias] = l.Bias != ""
		}
		if b.Experts != nil {
			p.bias[b.Experts.RouterBias] = b.Experts.RouterBias != ""
			p.bias[b.Experts.ChoiceBias] = b.Experts.ChoiceBias != ""
		}
	}
	return p, nil
}

// small notes the norms, their biases and the parameters of activations of a block.
func (p *planner) small(b *model.Block) {
	for _, n := range []model.Norm{b.AttnNorm, b.FFNNorm, b.QNorm, b.KNorm} {
		p.bias[n.Bias], p.norms[n.Weight] = n.Bias != "", n.Weight != ""
	}
	if x := b.ActParams; x != nil { // as they are before training
		p.numbers[x.AlphaP], p.numbers[x.AlphaN] = 0.2, -1
		p.numbers[x.Beta], p.numbers[x.Eps] = 0.5, -1e-6
	}
}

// stored returns the tensors of a checkpoint: one per expert, in families that store experts separately.
func stored(d *model.Description) (list []model.Need) {
	for _, n := range d.Tensors() {
		for _, name := range n.Parts() {
			list = append(list, model.Need{Name: name, Shape: n.Shape[1:], Linear: true})
		}
		if n.Each == "" {
			list = append(list, n)
		}
	}
	return list
}

// tensors returns all tensors in evaluation order.
func (p *planner) tensors() []tensor {
	for _, n := range stored(p.d) {
		switch s := newStream(p.seed, n.Name); {
		case p.decay[n.Name]: // e^A_log from 1/e to e
			p.floats(n, s, normal(), 0, 0.5)
		case p.bias[n.Name]:
			p.floats(n, s, normal(), 0, 0.05)
		case p.numbers[n.Name] != 0:
			p.add(n.Name, p.dtype, n.Shape, func() filler { return one{p.dtype, p.numbers[n.Name]} })
		case len(n.Shape) == 1 || p.norms[n.Name]:
			p.norm(n, s)
		case p.weights == Groups1 && len(n.Shape) == 2:
			p.linear(n, s)
		case n.Name == p.d.Head || n.Name == p.d.Embed && p.equal:
			if p.equal {
				s = newStream(p.seed, p.d.Embed)
			}
			// Logits of a normalized state have a standard deviation of 2: some tokens clearly more likely than others.
			p.floats(n, s, normal(), 0, 2/math.Sqrt(float64(p.d.Hidden)))
		case n.Name == p.d.Embed || n.Name == p.d.Positions:
			p.floats(n, s, normal(), 0, 0.02)
		case !n.Linear || p.d.Quant.Keeps(n.Name):
			p.floats(n, s, normal(), 0, p.deviation(n))
		default:
			p.linear(n, s)
		}
	}
	return p.list
}

// deviation is the standard deviation of the weights of a linear layer such that inputs of size 1 give outputs of size
// 1, and the sum of all additions to the residual stream has size 1 too.
func (p *planner) deviation(n model.Need) float64 {
	gain := 1.0
	if p.out[n.Name] {
		gain = 1 / math.Sqrt(2*float64(p.d.Layers))
	}
	return gain / math.Sqrt(float64(n.Shape[len(n.Shape)-1]))
}

func (p *planner) linear(n model.Need, s stream) {
	deviation := p.deviation(n)
	switch p.weights {
	case Normal:
		p.floats(n, s, normal(), 0, deviation)
	case AbsMean:
		p.floats(n, s, p.trained, 0, deviation/p.trained.rms())
	case MXFP4:
		if len(n.Shape) == 3 {
			p.mxfp4(n, s, deviation)
			return
		}
		p.floats(n, s, normal(), 0, deviation)
	case GPTQ:
		p.gptq(n, s, deviation)
	case Codes:
		p.packed(n, s, deviation/math.Sqrt(1-p.zeros))
	default:
		p.add(n.Name, p.dtype, n.Shape, func() filler {
			last := len(n.Shape) - 1
			rows := n.Shape[0]
			if last == 2 { // of all experts
				rows *= n.Shape[1]
			}
			f, _ := p.weights.quantized(p.zeros, rows)
			f.stream, f.scales = s, newStream(p.seed, n.Name+" scales")
			if f.dtype, f.k, f.base = p.dtype, int64(n.Shape[last]), deviation/f.rms(); p.weights == Groups1 {
				f.k = min(f.k, 128)
			}
			return &f
		})
	}
}

// packed adds the codes of a linear layer and its weight_scale, or the inverse if the checkpoint's convention divides.
func (p *planner) packed(n model.Need, s stream, scale float64) {
	p.add(n.Name, safetensors.U8, n.PackedShape(),
		func() filler { return newCodes(s, n.Shape[0], n.Shape[1], p.zeros) })
	if p.d.Quant.ScaleDivides {
		scale = 1 / scale
	}
	p.add(n.Name+"_scale", p.dtype, []int{1}, func() filler { return one{p.dtype, scale} })
}

// norm adds norm weights around 1, or around 0 if the model adds the 1 itself.
func (p *planner) norm(n model.Need, s stream) {
	mean := 1.0
	if p.d.NormPlusOne && !p.plain[n.Name] {
		mean = 0
	}
	p.floats(n, s, normal(), mean, 0.1)
}

func (p *planner) floats(n model.Need, s stream, t *shape, mean, deviation float64) {
	p.add(n.Name, p.dtype, n.Shape, func() filler { return newTable(s, p.dtype, t, mean, deviation) })
}

func (p *planner) add(name string, d safetensors.DType, dims []int, f func() filler) {
	t := tensor{TensorInfo: safetensors.TensorInfo{Name: name, DType: d}, filler: f}
	for _, n := range dims {
		t.Shape = append(t.Shape, int64(n))
	}
	p.list = append(p.list, t)
}
