package reference

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// wide is the forward pass in float64, written from the definitions of the models and not from NUMERICS: another
// opinion on the meaning of every option.
type wide struct {
	d *model.Description
	w map[string][]float64
}

func (m *wide) linear(l model.Linear, x []float64) []float64 {
	y := make([]float64, l.Out)
	for i := range y {
		for k, v := range x {
			y[i] += m.w[l.Weight][(l.Rows.From+i)*l.In+k] * v
		}
		if l.Bias != "" {
			y[i] += m.w[l.Bias][i]
		}
	}
	return y
}

func (m *wide) mlp(gate, up, down model.Linear, b *model.Block, x []float64) []float64 {
	u := m.linear(up, x)
	if gate.Weight == "" {
		for j := range u {
			u[j] = m.act(b, u[j])
		}
		return m.linear(down, m.norm(b.FFNSubNorm, u))
	}
	for j, g := range m.linear(gate, x) {
		u[j] *= m.act(b, g)
	}
	return m.linear(down, m.norm(b.FFNSubNorm, u))
}

func (m *wide) norm(n model.Norm, x []float64) []float64 {
	if n.Skipped() {
		return x
	}
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
		squares += v * v / float64(len(x))
	}
	if m.d.LayerNorm {
		squares -= mean * mean // the variance
	} else {
		mean = 0
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(squares+float64(m.d.NormEps))
		if n.Weight != "" {
			w := m.w[n.Weight][i]
			if m.d.NormPlusOne {
				w++
			}
			y[i] *= w
		}
		if n.Bias != "" {
			y[i] += m.w[n.Bias][i]
		}
	}
	return y
}

func (m *wide) rotate(x []float64, p int, local bool) {
	r := m.d.Rope
	for i := range r.Dim / 2 {
		theta := r.Theta
		if local && r.LocalTheta != 0 {
			theta = r.LocalTheta
		}
		f := math.Pow(theta, -2*float64(i)/float64(r.Dim))
		if r.Alpha != 0 {
			f = math.Pow(theta*math.Pow(r.Alpha, float64(r.Dim)/float64(r.Dim-2)), -2*float64(i)/float64(r.Dim))
		}
		if unscaled := local && r.LocalTheta != 0; !unscaled && r.Linear != 0 {
			f /= r.Linear
		} else if !unscaled && r.Factor != 0 {
			wave, old := 2*math.Pi/f, float64(r.OriginalMaxPositions)
			smooth := (old/wave - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
			smooth = max(0, min(1, smooth))
			f = (1-smooth)*f/r.Factor + smooth*f
		}
		s, c := math.Sincos(float64(p) * f)
		j, k := i, i+r.Dim/2
		if r.Pairs {
			j, k = 2*i, 2*i+1
		}
		x[j], x[k] = x[j]*c-x[k]*s, x[j]*s+x[k]*c
	}
}

func (m *wide) act(b *model.Block, x float64) float64 {
	switch m.d.Activation {
	case "xielu":
		p := b.ActParams
		beta, a := m.w[p.Beta][0], math.Log1p(math.Exp(m.w[p.AlphaP][0]))
		if x > 0 {
			return a*x*x + beta*x
		}
		n := beta + math.Log1p(math.Exp(m.w[p.AlphaN][0]))
		return n*(math.Expm1(min(x, m.w[p.Eps][0]))-x) + beta*x
	case "silu":
		return x / (1 + math.Exp(-x))
	case "relu2":
		return max(x, 0) * max(x, 0)
	}
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func capped(x float64, limit float32) float64 {
	if limit == 0 {
		return x
	}
	return float64(limit) * math.Tanh(x/float64(limit))
}

func (m *wide) logits(tokens []int) [][]float64 {
	d := m.d
	h := make([][]float64, len(tokens))
	for t, token := range tokens {
		h[t] = slices.Clone(m.w[d.Embed][token*d.Hidden : (token+1)*d.Hidden])
		for i := range h[t] {
			if d.EmbedScale != 0 {
				h[t][i] *= float64(d.EmbedScale)
			}
		}
	}
	factor := 1.0
	if d.ResidualScale != 0 {
		factor = float64(d.ResidualScale)
	}
	add := func(h, x []float64) {
		for i := range h {
			h[i] += factor * x[i]
		}
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		var keys, values [][]float64
		for t := range h {
			a := m.norm(b.AttnNorm, h[t])
			q, k, v := m.linear(b.Q, a), m.linear(b.K, a), m.linear(b.V, a)
			for _, x := range [][]float64{q, k, v} {
				for j := range x {
					if c := float64(d.ClipQKV); c != 0 {
						x[j] = max(-c, min(c, x[j]))
					}
				}
			}
			m.heads(q, b.QNorm, t, b)
			m.heads(k, b.KNorm, t, b)
			for j := range q {
				if r := d.Rope; r.QueryBeta != 0 {
					q[j] *= 1 + r.QueryBeta*math.Log(1+math.Floor(float64(t)/float64(r.OriginalMaxPositions)))
				}
			}
			keys, values = append(keys, k), append(values, v)
			o := m.norm(b.AttnSubNorm, m.attend(q, keys, values, t, b.Local))
			before := slices.Clone(h[t])
			add(h[t], m.norm(b.AttnPostNorm, m.linear(b.O, o)))
			x := m.norm(b.FFNNorm, h[t])
			if d.Parallel {
				x = m.norm(b.FFNNorm, before)
			}
			if b.Experts != nil {
				add(h[t], m.norm(b.FFNPostNorm, m.experts(b, x)))
				continue
			}
			add(h[t], m.norm(b.FFNPostNorm, m.mlp(b.Gate, b.Up, b.Down, b, x)))
		}
	}
	for t := range h {
		head := model.Linear{Weight: d.Head, Bias: d.HeadBias, In: d.Hidden, Out: d.Vocab}
		h[t] = m.linear(head, m.norm(d.FinalNorm, h[t]))
		for i, v := range h[t] {
			if d.LogitDivisor != 0 {
				v /= float64(d.LogitDivisor)
			}
			if d.LogitScale != 0 {
				v *= float64(d.LogitScale)
			}
			h[t][i] = capped(v, d.LogitSoftcap)
		}
	}
	return h
}

func (m *wide) heads(x []float64, norm model.Norm, p int, b *model.Block) {
	if m.d.HeadNorm == model.WholeHead {
		copy(x, m.norm(norm, x))
		norm = model.Norm{}
	}
	all := norm
	for i := 0; i < len(x); i += m.d.HeadDim {
		head := x[i : i+m.d.HeadDim]
		if m.d.HeadNorm == model.OwnHead && !norm.Skipped() {
			norm = model.Norm{Weight: all.Of(i / m.d.HeadDim)}
			if !all.Apart() {
				norm.Weight = fmt.Sprint("head ", i)
				m.w[norm.Weight] = m.w[all.Weight][i:][:m.d.HeadDim]
			}
		}
		if !m.d.RotateFirst {
			copy(head, m.norm(norm, head))
		}
		if !b.NoRope {
			m.rotate(head, p, b.Local)
		}
		if m.d.RotateFirst {
			copy(head, m.norm(norm, head))
		}
	}
}

func (m *wide) attend(q []float64, keys, values [][]float64, t int, local bool) []float64 {
	d := m.d
	scale := float64(d.AttnScale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d.HeadDim))
	}
	o := make([]float64, len(q))
	for h := range d.Heads {
		kv, total := h*d.KVHeads/d.Heads*d.HeadDim, 0.0
		for j := range keys {
			if local && d.SlidingWindow > 0 && j <= t-d.SlidingWindow {
				continue
			}
			z := 0.0
			for i := range d.HeadDim {
				z += q[h*d.HeadDim+i] * keys[j][kv+i]
			}
			e := math.Exp(capped(z*scale, d.AttnSoftcap))
			total += e
			for i := range d.HeadDim {
				o[h*d.HeadDim+i] += e * values[j][kv+i]
			}
		}
		for i := range d.HeadDim {
			o[h*d.HeadDim+i] /= total
		}
	}
	return o
}

// plain is a small model with nothing special about it.
func plain() *model.Description {
	d := &model.Description{
		Config: model.Config{
			Hidden: 24, Intermediate: 40, Layers: 3, Heads: 6, KVHeads: 2, HeadDim: 10, Vocab: 33, MaxPositions: 64,
			NormEps: 1e-5, Activation: "silu", Rope: model.Rope{Theta: 10000, Dim: 10}, BOS: -1,
		},
		Embed: "embed", FinalNorm: model.Norm{Weight: "norm"}, Head: "head",
	}
	for i := range 3 {
		p := fmt.Sprintf("%d.", i)
		d.Blocks = append(d.Blocks, model.Block{
			AttnNorm: model.Norm{Weight: p + "an"}, FFNNorm: model.Norm{Weight: p + "fn"},
			Q: model.Linear{Weight: p + "q", In: 24, Out: 60}, K: model.Linear{Weight: p + "k", In: 24, Out: 20},
			V: model.Linear{Weight: p + "v", In: 24, Out: 20}, O: model.Linear{Weight: p + "o", In: 60, Out: 24},
			Gate: model.Linear{Weight: p + "g", In: 24, Out: 40}, Up: model.Linear{Weight: p + "u", In: 24, Out: 40},
			Down: model.Linear{Weight: p + "d", In: 40, Out: 24},
		})
	}
	return d
}

// options changes the plain model, one thing each.
var options = []struct {
	name   string
	change func(d *model.Description)
}{
	{"plain", func(d *model.Description) {}},
	{"tied head", func(d *model.Description) { d.Head = d.Embed }},
	{"relu2 and sub-norms", func(d *model.Description) {
		d.Activation = "relu2"
		eachBlock(d, func(b *model.Block) {
			b.AttnSubNorm.Weight, b.FFNSubNorm.Weight = b.Q.Weight+"sub", b.Down.Weight+"sub"
		})
	}},
	{"biases", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			for _, l := range b.Linears() {
				l.Bias = l.Weight + "bias"
			}
		})
	}},
	{"norms of heads", func(d *model.Description) {
		eachBlock(d, headNorms)
	}},
	{"post-norms, softcaps, embedding scale, 1 + w, gelu", func(d *model.Description) {
		d.Activation, d.NormPlusOne, d.EmbedScale = "gelu_tanh", true, 4.9
		d.AttnScale, d.AttnSoftcap, d.LogitSoftcap = 0.2, 5, 3
		eachBlock(d, func(b *model.Block) {
			b.AttnPostNorm.Weight, b.FFNPostNorm.Weight = b.O.Weight+"post", b.Down.Weight+"post"
		})
	}},
	{"norms of all heads, after the layers alone", func(d *model.Description) {
		d.HeadNorm = model.WholeHead
		eachBlock(d, func(b *model.Block) {
			headNorms(b)
			b.AttnNorm, b.FFNNorm = model.Norm{}, model.Norm{}
			b.AttnPostNorm.Weight, b.FFNPostNorm.Weight = b.O.Weight+"post", b.Down.Weight+"post"
		})
	}},
	{"norms of heads after the rotation", func(d *model.Description) {
		d.RotateFirst = true
		eachBlock(d, headNorms)
	}},
	{"blocks without rotation", func(d *model.Description) { d.Blocks[1].NoRope = true }},
	{"scales of residuals and logits",
		func(d *model.Description) { d.EmbedScale, d.ResidualScale, d.LogitDivisor = 12, 0.22, 8 }},
	{"sliding window", func(d *model.Description) {
		d.SlidingWindow, d.Rope.LocalTheta, d.Rope.Linear = 3, 100, 8
		d.Blocks[0].Local, d.Blocks[2].Local = true, true
	}},
	{"partial rotation", func(d *model.Description) { d.Rope.Dim = 4 }},
	{"a base with alpha", func(d *model.Description) { d.Rope.Alpha = 1000 }},
	{"llama3 scaling", func(d *model.Description) {
		r := &d.Rope
		r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositions = 4, 1, 4, 64
	}},
	{"experts in tensors of their own",
		func(d *model.Description) { d.Blocks[1] = withExperts(d.Blocks[1], 6, 2, "*.", 0) }},
	{"experts in one tensor, whose weights sum to 1", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) { *b = withExperts(*b, 5, 3, "", 0); b.Experts.Normalize = true })
	}},
	{"a shared expert", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			*b = withExperts(*b, 3, 1, "*.", 48)
			b.FFNPostNorm.Weight = b.Down.Weight + "post"
		})
	}},
	{"LayerNorm with biases, MLPs without a gate", func(d *model.Description) {
		d.LayerNorm, d.Activation = true, "gelu_tanh"
		eachBlock(d, func(b *model.Block) {
			b.AttnNorm.Bias, b.FFNNorm.Bias, b.Gate = b.AttnNorm.Weight+"bias", b.FFNNorm.Weight+"bias", model.Linear{}
		})
	}},
	{"LayerNorm without weights, clamped queries", func(d *model.Description) {
		d.LayerNorm, d.ClipQKV, d.FinalNorm = true, 0.4, model.Norm{Bare: true}
		eachBlock(d, func(b *model.Block) { b.AttnNorm, b.FFNNorm = d.FinalNorm, d.FinalNorm })
	}},
	{"attention and MLP in parallel, one norm, pairs", func(d *model.Description) {
		d.LayerNorm, d.Parallel, d.Rope.Pairs, d.LogitScale = true, true, true, 0.25
		eachBlock(d, func(b *model.Block) { b.FFNNorm = b.AttnNorm })
	}},
	{"two norms in parallel, pairs of a part, a bias of the head", func(d *model.Description) {
		d.Parallel, d.Rope.Pairs, d.Rope.Dim, d.HeadBias = true, true, 6, "headbias"
	}},
	{"norms of single heads", func(d *model.Description) {
		d.HeadNorm = model.OwnHead
		eachBlock(d, headNorms)
		d.Blocks[1].QNorm.Weight = "1.norm.*"
	}},
	{"queries scaled by position", func(d *model.Description) {
		d.Rope.QueryBeta, d.Rope.OriginalMaxPositions = 0.5, 3
	}},
	{"xIELU", func(d *model.Description) {
		d.Activation = model.XIELU
		eachBlock(d, func(b *model.Block) {
			p := b.Up.Weight
			b.Gate = model.Linear{}
			b.ActParams = &model.ActParams{AlphaP: p + "p", AlphaN: p + "n", Beta: p + "b", Eps: p + "e"}
		})
	}},
	{"sigmoids of experts, with a bias for the choice and a scale", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			*b = withExperts(*b, 6, 3, "*.", 0)
			x := b.Experts
			x.ChoiceBias = b.Q.Weight + "choice"
			x.Routing = model.Routing{Score: model.Sigmoid, Normalize: true, Scale: 2.5}
		})
	}},
	{"experts of the best groups, and a shared expert without a gate", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			*b = withExperts(*b, 6, 2, "", 48)
			x := b.Experts
			x.SharedGate, x.ChoiceBias = "", b.Q.Weight+"choice"
			x.Routing = model.Routing{Score: model.Sigmoid, Groups: 3, KeptGroups: 1, GroupTop: 2, Epsilon: 0.5,
				Normalize: true}
		})
	}},
	{"a softmax with a bias for the choice, in groups by their best", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			*b = withExperts(*b, 6, 2, "", 0)
			b.Experts.ChoiceBias = b.Q.Weight + "choice"
			b.Experts.Routing = model.Routing{Groups: 2, KeptGroups: 1, GroupTop: 1, Normalize: true, Least: 0.8}
		})
	}},
	{"fused projections", func(d *model.Description) {
		eachBlock(d, func(b *model.Block) {
			name := b.Q.Weight + "kv"
			b.Q.Weight, b.Q.Rows = name, model.Rows{From: 0, To: 60}
			b.K.Weight, b.K.Rows = name, model.Rows{From: 60, To: 80}
			b.V.Weight, b.V.Rows = name, model.Rows{From: 80, To: 100}
		})
	}},
}

// headNorms gives a block norms of queries and keys.
func headNorms(b *model.Block) { b.QNorm.Weight, b.KNorm.Weight = b.Q.Weight+"norm", b.K.Weight+"norm" }

// withExperts gives a block of the plain model experts of 16 values, in tensors of all, or of each with a * in their
// names, and one that all tokens share if it has a width.
func withExperts(b model.Block, count, chosen int, each string, shared int) model.Block {
	linear := func(name string, in, out int) model.Linear {
		l := model.Linear{Weight: b.Q.Weight + name, In: in, Out: out, Experts: count}
		if each != "" {
			l.Each = l.Weight + each
		}
		return l
	}
	b.Gate, b.Up, b.Down = model.Linear{}, model.Linear{}, model.Linear{}
	x := &model.Experts{Count: count, Chosen: chosen, Router: b.Q.Weight + "router", Gate: linear("eg", 24, 16),
		Up: linear("eu", 24, 16), Down: linear("ed", 16, 24)}
	if each == "" { // gate and up together
		x.Up.Weight, x.Gate.Rows, x.Up.Rows = x.Gate.Weight, model.Rows{From: 0, To: 16}, model.Rows{From: 16, To: 32}
	}
	if shared > 0 {
		x.SharedGate = b.Q.Weight + "gate"
		b.Gate = model.Linear{Weight: b.Q.Weight + "sg", In: 24, Out: shared}
		b.Up = model.Linear{Weight: b.Q.Weight + "su", In: 24, Out: shared}
		b.Down = model.Linear{Weight: b.Q.Weight + "sd", In: shared, Out: 24}
	}
	b.Experts = x
	return b
}

func eachBlock(d *model.Description, change func(*model.Block)) {
	for i := range d.Blocks {
		change(&d.Blocks[i])
	}
}

// randomModel gives every tensor of d random weights.
func randomModel(d *model.Description, seed uint64) (*sample.Model, *wide) {
	r := rand.New(rand.NewPCG(seed, 9))
	file, same := &sample.Model{}, &wide{d, map[string][]float64{}}
	for _, n := range d.Tensors() {
		size := 1
		for _, k := range n.Shape {
			size *= k
		}
		x := make([]float32, size)
		for i := range x {
			x[i] = float32(r.NormFloat64()) / 3
			if strings.Contains(n.Name, "n") && len(n.Shape) == 1 && !d.NormPlusOne {
				x[i]++
			}
			same.w[n.Name] = append(same.w[n.Name], float64(x[i]))
		}
		for i, part := range n.Parts() {
			each := size / n.Shape[0]
			file.Plain = append(file.Plain, sample.F32(part, x[i*each:][:each], n.Shape[1:]...))
		}
		if n.Each == "" {
			file.Plain = append(file.Plain, sample.F32(n.Name, x, n.Shape...))
		}
	}
	return file, same
}

// TestOptions compares every option with the float64 program.
func TestOptions(t *testing.T) {
	tokens := []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 32, 0}
	var before [][]float32
	for _, o := range options {
		d := plain()
		o.change(d)
		file, want := randomModel(d, 1)
		m, err := New(file.Open(t), d)
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		got, ref := logits(t, m, tokens), want.logits(tokens)
		for p := range ref {
			for i, v := range ref[p] {
				if math.Abs(float64(got[p][i])-v) > 2e-5*max(1, math.Abs(v)) {
					t.Fatalf("%s: position %d, logit %d: %v, want %v", o.name, p, i, got[p][i], v)
				}
			}
		}
		if before != nil && math.Abs(float64(before[10][0]-got[10][0])) < 1e-3 {
			t.Errorf("%s makes no difference to the model before it: the test proves nothing", o.name)
		}
		before = got
	}
}

// TestBatchesAgree: one pass over a text, its tokens one by one, and two texts at once give the same bits.
func TestBatchesAgree(t *testing.T) {
	d := plain()
	d.SlidingWindow, d.Blocks[1].Local = 4, true
	file, _ := randomModel(d, 2)
	quantizeBlocks(d, file)
	m, err := New(file.Open(t), d)
	if err != nil {
		t.Fatal(err)
	}
	a, b := []int{7, 2, 30, 4, 4, 18, 9}, []int{5, 5, 1}
	whole, other := logits(t, m, a), logits(t, m, b)
	step := m.NewSequence()
	for i, token := range a {
		z, err := m.Forward(context.Background(), Chunk{step, []int{token}})
		if err != nil || !slices.Equal(z[0], whole[i]) {
			t.Fatalf("token %d alone gives other logits (%v)", i, err)
		}
	}
	both, err := m.Forward(context.Background(), Chunk{m.NewSequence(), a}, Chunk{m.NewSequence(), b})
	if err != nil || !slices.EqualFunc(both, slices.Concat(whole, other), slices.Equal) {
		t.Fatalf("two texts at once give other logits (%v)", err)
	}
}

// quantizeBlocks turns the linear layers of the blocks into ternary ones with scales of every kind.
func quantizeBlocks(d *model.Description, file *sample.Model) {
	kinds := []packed.Scale{{Kind: packed.ScaleTensor}, {Kind: packed.ScaleRow}, {Kind: packed.ScaleGroup, Group: 32},
		{Kind: packed.ScaleGroup, Group: 64}}
	r := rand.New(rand.NewPCG(8, 8))
	eachBlock(d, func(b *model.Block) {
		for i, l := range b.Linears() {
			file.Plain = slices.DeleteFunc(file.Plain, func(p sample.Plain) bool { return p.Name == l.Weight })
			shape, scale := pack.Shape{M: l.Out, K: l.In}, kinds[i%len(kinds)]
			file.Quantized = append(file.Quantized, sample.Quantized{
				Name: l.Weight, Matrix: randomMatrix(r, shape, pack.Ternary), Layout: pack.Spec{Name: "vnni4i"},
				Scale: scale, Scales: scalesFor(shape, scale), Quantizer: "test",
			})
		}
	})
	slices.SortFunc(file.Quantized, func(a, b sample.Quantized) int { return strings.Compare(a.Name, b.Name) })
}
