package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	ropes "github.com/lowpack/lowpack/internal/rotary"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/device"
)

// deviceModel describes the loaded model to a device, or says what in it or in the options no device computes.
func (e *Engine) deviceModel() (*device.Model, error) {
	d, o, w := e.desc, &e.opt, &e.weights
	for _, no := range []struct {
		is   bool
		what string
	}{
		{o.FloatActivations, "float activations"},
		{e.planes() > 1 && (w.codedLayers() || w.head.coded()), "activations of 16 bits"},
		{o.OnePass, "a KV cache for one pass"},
		{o.Observe != nil, "an observer"},
		{e.staged(), "rotations that depend on the length of the text"},
		{d.Latent != nil, "latent attention"},
		{d.ALiBi, "ALiBi"},
		{d.Chunked, "chunked attention"},
		{d.Streams != nil, "several residual streams"},
		{d.LayerInputs != nil, "inputs of layers"},
		{d.Rope.StillBeta != 0, "a factor of queries that do not rotate"},
		{deviceGates[d.Activation] == device.GateNone, fmt.Sprintf("the activation %q", d.Activation)},
		{d.ClipQKV != 0 && d.HeadNorm == model.WholeHead, "a limit before a norm of all heads"},
	} {
		if no.is {
			return nil, errOption(no.what)
		}
	}
	attention := attentionOf(d, d.HeadDim)
	rope, _ := ropes.Of(&d.Rope)
	m := &device.Model{
		Hidden: d.Hidden, Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, Vocab: d.Vocab,
		Rot: 2 * len(rope.Inv), Pairs: d.Rope.Pairs, RotateFirst: d.RotateFirst,
		WholeNorm: d.HeadNorm == model.WholeHead, Clip: d.ClipQKV, ActGroup: e.activation.Size,
		Cache:     deviceCaches[o.Cache],
		AttnScale: attention.Scale, AttnCap: attention.Cap, Parallel: d.Parallel, ResidualScale: d.ResidualScale,
		Norm: deviceNorm(&e.weights.norm), LogitDivisor: d.LogitDivisor, LogitScale: d.LogitScale,
		LogitCap: d.LogitSoftcap,
	}
	for i := range e.weights.blocks {
		b := &e.weights.blocks[i]
		if !m.WholeNorm && max(len(b.qNorm.weights), len(b.kNorm.weights)) > d.HeadDim {
			m.OwnHeadNorm = true
		}
		block, err := e.deviceBlock(b)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		m.Blocks = append(m.Blocks, block)
	}
	var err error
	m.Head, err = e.deviceLinear(&e.weights.head)
	return m, err
}

// deviceBlock describes a layer.
func (e *Engine) deviceBlock(b *block) (to device.Block, err error) {
	switch {
	case b.recurrence != nil:
		return to, errOption("a recurrent layer")
	case b.laurel != nil:
		return to, errOption("a linear layer of low rank beside attention")
	case b.kvOf != 0 || b.vNorm.exists():
		return to, errOption("shared keys and values, or a norm of values")
	case b.keysAsValues:
		return to, errOption("keys as values")
	case b.scalar != nil:
		return to, errOption("a factor of the residual stream")
	case b.sparse:
		return to, errOption("sparse gates")
	case b.gated:
		return to, errOption("a gate of attention")
	case b.experts != nil:
		return to, errOption("experts")
	case len(b.gateUp.matrices) == 0:
		return to, errOption("a layer without an MLP")
	case b.qNorm.bias != nil || b.kNorm.bias != nil:
		return to, errOption("a norm of heads with a bias")
	case e.desc.Global != nil:
		return to, errOption("heads of two sizes")
	case e.desc.Rope.Rotating != 0:
		return to, errOption("a rotation of some pairs of a head only")
	}
	to = device.Block{
		AttnNorm: deviceNorm(&b.attnNorm), AttnSubNorm: deviceNorm(&b.attnSubNorm),
		AttnPostNorm: deviceNorm(&b.attnPostNorm), QNorm: deviceNorm(&b.qNorm), KNorm: deviceNorm(&b.kNorm),
		FFNNorm: deviceNorm(&b.ffnNorm), FFNSubNorm: deviceNorm(&b.ffnSubNorm), FFNPostNorm: deviceNorm(&b.ffnPostNorm),
		Local: b.local, Rotated: !b.noRope, Sinks: b.sinks,
	}
	to.Gate, to.GateParams = e.deviceGate(b)
	for _, l := range []struct {
		to   *device.Linear
		from *projection
	}{{&to.QKV, &b.qkv}, {&to.O, &b.o}, {&to.GateUp, &b.gateUp}, {&to.Down, &b.down}} {
		if *l.to, err = e.deviceLinear(l.from); err != nil {
			return to, err
		}
	}
	return to, nil
}

// deviceGates are the activations that devices compute.
var deviceGates = map[model.Activation]device.Gate{model.SiLU: device.GateSiLU, model.ReLU2: device.GateReLU2,
	model.GELUTanh: device.GateGELUTanh, model.XIELU: device.GateXIELU, model.ClampedSwiGLU: device.GateClamped}

// deviceGate describes the activation of a dense MLP.
func (e *Engine) deviceGate(b *block) (g device.Gate, params [4]float32) {
	d := e.desc
	g = deviceGates[d.Activation]
	switch g {
	case device.GateXIELU:
		params = b.gates
	case device.GateClamped:
		params = [4]float32{d.GateAlpha, d.GateLimit}
	}
	if b.gateUp.out == b.down.in {
		g += device.GateSingle
	}
	return g, params
}

func deviceNorm(n *norm) device.NormWeights {
	to := device.NormWeights{Kind: device.NormRMS, Weights: n.weights, Bias: n.bias, Eps: n.eps}
	switch {
	case !n.exists():
		to.Kind = device.NormNone
	case n.layer:
		to.Kind = device.NormLayer
	}
	return to
}

// deviceCaches are the formats of the KV cache.
var deviceCaches = map[CacheType]device.CacheType{CacheF32: device.CacheF32, CacheF16: device.CacheF16,
	CacheI8: device.CacheI8, CacheI4: device.CacheI4}

// deviceLinear describes a projection.
func (e *Engine) deviceLinear(f *projection) (to device.Linear, err error) {
	if f.scattered != nil {
		return to, errOption("rows that are not adjacent")
	}
	to = device.Linear{In: f.in, Out: f.out}
	for i := range f.matrices {
		m := &f.matrices[i]
		if m.factors != nil {
			return to, errOption("outputs that are scaled")
		}
		if m.codes == nil {
			to.Matrices = append(to.Matrices, device.Matrix{Name: f.names[i], Rows: m.rows, Bias: m.bias,
				Type: deviceTypes[m.floats.Type], Data: m.floats.Data()})
			continue
		}
		if m.order != nil && e.activation.Size != 0 { // groups are those of the vector in its order
			return to, fmt.Errorf("%q: %w", f.names[i],
				errOption("an order of columns with activations that have a scale per group"))
		}
		to.Matrices = append(to.Matrices, device.Matrix{Name: f.names[i], Rows: m.rows, Bias: m.bias,
			Codes: m.deviceCodes()})
	}
	return to, nil
}

// deviceCodes describes a matrix of codes.
func (m *matrix) deviceCodes() *device.CodeMatrix {
	u := m.side
	c := &device.CodeMatrix{Layout: m.codes.Layout, Shape: m.codes.Shape, Data: m.data, Scales: u.scales,
		Grouped: m.scales == nil, PerRow: u.perRow, Group: u.group, Zeros: u.zeros}
	if m.minima != nil {
		c.Zeros = nil // they are the lowest code, which is one number on a device
		c.Minima = &device.Minima{Type: deviceTypes[m.minima.Type], Width: m.minima.Cols, Data: m.minima.Data()}
	}
	for _, column := range m.order {
		c.Order = append(c.Order, uint32(column))
	}
	return c
}

var deviceTypes = map[tensor.Type]device.FloatType{tensor.F32: device.F32, tensor.F16: device.F16,
	tensor.BF16: device.BF16}
