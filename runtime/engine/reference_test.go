//go:build amd64 && !purego

// The other builds of TestLogitsDigestElsewhere exclude this file: the reference imports Arrow, which takes long to
// compile.

package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

// TestEqualsReference compares with the reference model, which others wrote from docs/NUMERICS.md alone, bit for bit:
// random models that between them use every feature of a description, in every kind of storage.
func TestEqualsReference(t *testing.T) {
	if long.All {
		equalsReference(t, 200, everyFeature)
	} else {
		equalsReference(t, 120, everyFeature)
	}
}

// TestMinimaInOrders: matrices with minima that read the same vector, each in its own column order.
func TestMinimaInOrders(t *testing.T) {
	equalsReference(t, 10, minimaAlone)
}

func equalsReference(t *testing.T, models uint64, of features) {
	for seed := range models {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			v, d := randomModel(t, r, of)
			e, err := build(v, d, Options{Threads: 1 + r.IntN(3), Batch: 1 + r.IntN(9)})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if r.IntN(2) == 0 { // share even short contexts among workers
				e.pass.attention.long = 1
			}
			e.pass.mlpTokens = 1 + int(seed%3)
			ref, err := reference.New(v, d)
			if err != nil {
				t.Fatal(err)
			}
			tokens := make([]int, 1+r.IntN(20))
			for i := range tokens {
				tokens[i] = r.IntN(d.Vocab)
			}
			want, err := ref.Logits(context.Background(), tokens)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range logits(t, e, tokens, len(tokens)) {
				if !slices.Equal(row, want[i]) {
					t.Fatalf("position %d of %d: logits differ by up to %g\n%+v", i, len(tokens),
						maxDiff(row, float64s(want[i])), d.Config)
				}
			}
			if seed%4 == 0 {
				hiddenEqualsReference(t, e, ref, tokens)
			}
		})
	}
}

// hiddenEqualsReference compares the hidden states of a text, and those of its end alone.
func hiddenEqualsReference(t *testing.T, e *Engine, ref *reference.Model, tokens []int) {
	t.Helper()
	want, err := ref.Hidden(context.Background(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	flat := slices.Concat(want...)
	if got := hidden(t, e, tokens, len(tokens)); !slices.Equal(got, flat) {
		t.Fatalf("hidden states of %d tokens differ\n%+v", len(tokens), e.desc.Config)
	}
	if got := hidden(t, e, tokens, 1); !slices.Equal(got, want[len(tokens)-1]) {
		t.Fatalf("the hidden state of the last of %d tokens differs\n%+v", len(tokens), e.desc.Config)
	}
}

// TestTinyEqualsReference compares the bundled model with the reference.
func TestTinyEqualsReference(t *testing.T) {
	v := fromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), "i2", false)
	e := engine(t, v, Options{})
	ref, err := reference.New(v, e.desc)
	if err != nil {
		t.Fatal(err)
	}
	tokens := texts(t)[3]
	want, err := ref.Logits(context.Background(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	compareRows(t, [][][]float32{logits(t, e, tokens, len(tokens))}, [][][]float32{want})
}

func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// maker generates the tensors of a random model.
type maker struct {
	*rand.Rand
	t *testing.T
	v *view

	of features
}

// minima says that all matrices have minima and an order.
func (m *maker) minima() bool { return m.of == minimaAlone }

// served says that devices serve all but experts.
func (m *maker) served() bool { return m.of == onDevices || m.of == expertsBeside }

// features are what random models may have.
type features int

const (
	everyFeature  features = iota
	minimaAlone            // all matrices have minima and an order
	onDevices              // what devices serve
	expertsBeside          // what devices serve, and experts
)

// chance is true once in n times.
func (m *maker) chance(n int) bool { return m.IntN(n) == 0 }

func pick[T any](m *maker, from ...T) T { return from[m.IntN(len(from))] }

func randomModel(t *testing.T, r *rand.Rand, of features) (*view, *model.Description) {
	m := &maker{r, t, newView("{}"), of}
	d := &model.Description{Family: "random", Config: m.config()}
	if m.chance(5) && !m.served() {
		m.latent(&d.Config)
	}
	activations := packed.Activations()
	if m.served() {
		activations = slices.DeleteFunc(activations, func(a packed.Activation) bool { return a.Planes() > 1 })
	}
	m.v.manifest.Activation = pick(m, activations...)
	d.Embed = "embed"
	if m.chance(3) {
		m.codes(d.Embed, d.Vocab, d.Hidden, "vnni4i", pack.Int4, false)
	} else {
		m.floats(d.Embed, d.Vocab, d.Hidden)
	}
	if m.chance(4) {
		d.FirstPosition = m.IntN(3)
		d.Positions = m.floats("places", d.MaxPositions+d.FirstPosition, d.Hidden)
	}
	d.EmbedNorm = m.norm("en", d.Hidden, 4)
	d.FinalNorm = m.norm("norm", d.Hidden, 1)
	d.Head = d.Embed
	if m.chance(2) {
		d.Head = m.matrix("head", d.Vocab, d.Hidden)
	}
	if m.chance(4) {
		d.HeadBias = m.floats("head.bias", 1, d.Vocab)
	}
	for i := range d.Layers {
		prefix := fmt.Sprintf("%d.", i)
		b := m.block(prefix, &d.Config)
		if d.Latent != nil {
			m.latentBlock(prefix, &d.Config, &b)
		} else if m.chance(4) && !m.served() {
			m.recurrent(prefix, &d.Config, &b)
		} else if !d.Parallel && m.chance(5) && !m.served() {
			attention := b
			m.recurrent(prefix, &d.Config, &b)
			b.Q, b.AttnGate, b.K, b.V, b.O = attention.Q, attention.AttnGate, attention.K, attention.V, attention.O
			b.QNorm, b.KNorm, b.AttnSubNorm = attention.QNorm, attention.KNorm, attention.AttnSubNorm
		}
		if !d.Parallel && m.chance(8) && !m.served() { // Mamba-2 without MLPs
			b.Gate, b.Up, b.Down, b.Experts = model.Linear{}, model.Linear{}, model.Linear{}, nil
		}
		d.Blocks = append(d.Blocks, b)
	}
	m.beside(d)
	return m.v, d
}

func (m *maker) config() model.Config {
	c := model.Config{
		Hidden: pick(m, 16, 24, 64, 100, 256), Intermediate: pick(m, 8, 33, 96, 160, 300), Layers: 1 + m.IntN(3),
		KVHeads: 1 + m.IntN(3), HeadDim: pick(m, 2, 8, 16, 20, 34, 64), Vocab: 30 + m.IntN(40), MaxPositions: 64,
		NormEps:     pick(m, float32(1e-5), 1e-6),
		Activation:  pick(m, model.SiLU, "relu2", "gelu_tanh", "gelu", "relu"),
		NormPlusOne: m.chance(3),
	}
	c.Heads = c.KVHeads * (1 + m.IntN(5))
	c.ALiBi = m.chance(5) && !m.served()
	if m.served() {
		c.Activation = pick(m, model.SiLU, "relu2", "gelu_tanh")
	}
	c.Rope = model.Rope{Theta: pick(m, 10000.0, 500000, 1e6), Dim: c.HeadDim}
	if m.chance(3) {
		c.Rope.Dim = max(2, c.HeadDim/4*2)
	}
	switch m.IntN(4) {
	case 0:
		c.Rope.Factor, c.Rope.LowFreqFactor, c.Rope.HighFreqFactor, c.Rope.OriginalMaxPositions = 8, 1, 4, 32
	case 1:
		c.Rope.Linear = 4
	case 2:
		if c.Rope.Dim >= 4 {
			c.Rope.Alpha = 1000
		}
	case 3:
		if c.Rope.Dim >= 4 && !m.served() && m.chance(2) {
			c.Rope.Dynamic, c.Rope.OriginalMaxPositions = 2, 1+m.IntN(30)
		}
	}
	if m.chance(3) {
		c.SlidingWindow = 1 + m.IntN(8)
	}
	if m.chance(3) {
		c.Rope.LocalTheta = 1000
	}
	if m.chance(3) {
		c.EmbedScale = 7.5
	}
	if m.chance(3) {
		c.ResidualScale, c.LogitDivisor = 0.22, 3
	}
	c.HeadNorm = pick(m, model.EachHead, model.EachHead, model.WholeHead, model.OwnHead)
	c.RotateFirst = c.HeadNorm != model.WholeHead && m.chance(4) // no family has both
	c.LayerNorm, c.Parallel, c.Rope.Pairs = m.chance(3), m.chance(4), m.chance(3)
	if m.chance(4) {
		c.LogitScale, c.ClipQKV = 0.3, 0.7
	}
	if m.chance(4) && c.Rope.Factor == 0 {
		c.Rope.QueryBeta, c.Rope.OriginalMaxPositions = 0.1, 3
	}
	if m.chance(5) {
		c.Activation = model.XIELU
	}
	if !m.served() {
		c.Chunked = c.SlidingWindow > 0 && m.chance(3)
		if m.chance(4) {
			c.Rope.StillBeta, c.Rope.StillSpan = 0.3, 1+m.IntN(4)
		}
	}
	if m.chance(3) {
		c.AttnScale = 0.2
	}
	if m.chance(3) {
		c.AttnSoftcap, c.LogitSoftcap = 5, 3
	}
	return c
}

func (m *maker) block(prefix string, c *model.Config) model.Block {
	q := c.Heads * c.HeadDim
	b := model.Block{
		AttnNorm:     m.norm(prefix+"a", c.Hidden, 1),
		AttnSubNorm:  m.norm(prefix+"as", q, 2),
		AttnPostNorm: m.norm(prefix+"ap", c.Hidden, 3),
		QNorm:        m.headNorm(prefix+"qn", c, c.Heads),
		KNorm:        m.headNorm(prefix+"kn", c, c.KVHeads),
		FFNNorm:      m.norm(prefix+"f", c.Hidden, 1),
		FFNSubNorm:   m.norm(prefix+"fs", c.Intermediate, 2),
		FFNPostNorm:  m.norm(prefix+"fp", c.Hidden, 3),
		O:            m.linear(prefix+"o", q, c.Hidden),
		Down:         m.linear(prefix+"d", c.Intermediate, c.Hidden),
		Local:        m.chance(2),
		NoRope:       m.chance(4),
	}
	if m.chance(4) { // norms after the layers only
		b.AttnNorm, b.FFNNorm = model.Norm{}, model.Norm{}
	}
	if c.Activation == model.XIELU {
		p := func(name string, shape ...int) string {
			m.v.plain(prefix+name, "F32", shape, bytesOf([]float32{float32(m.NormFloat64())}))
			return prefix + name
		}
		b.ActParams = &model.ActParams{AlphaP: p("xp", 1), AlphaN: p("xn", 1), Beta: p("beta"), Eps: p("eps")}
	} else if !c.Parallel && m.chance(3) && m.of != onDevices { // no family has experts with either
		m.experts(prefix, c, &b)
	}
	return m.layers(prefix, c, b)
}

// layers gives a block the linear layers of attention and MLP: fused, or each in its tensor.
func (m *maker) layers(prefix string, c *model.Config, b model.Block) model.Block {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	plain := b.Experts == nil && m.chance(3)
	if m.chance(3) {
		b.Q, b.K, b.V = model.Linear{Out: q}, model.Linear{Out: kv}, model.Linear{Out: kv}
		if c.Heads == c.KVHeads && m.chance(2) {
			m.scattered(prefix+"qkv", c.Hidden, c.Heads, &b.Q, &b.K, &b.V)
		} else {
			m.fused(prefix+"qkv", c.Hidden, &b.Q, &b.K, &b.V)
		}
		if b.Experts != nil {
			return b
		}
		if plain {
			b.Up = m.linear(prefix+"u", c.Hidden, c.Intermediate)
			return b
		}
		b.Gate, b.Up = model.Linear{Out: c.Intermediate}, model.Linear{Out: c.Intermediate}
		m.fused(prefix+"gu", c.Hidden, &b.Gate, &b.Up)
		return b
	}
	b.Q, b.K, b.V = m.linear(prefix+"q", c.Hidden, q), m.linear(prefix+"k", c.Hidden, kv), m.linear(prefix+"v",
		c.Hidden, kv)
	if m.chance(3) && !m.served() {
		b.Q, b.AttnGate = model.Linear{Out: q}, model.Linear{Out: q}
		m.scattered(prefix+"qg", c.Hidden, c.Heads, &b.Q, &b.AttnGate)
	}
	if b.Experts != nil {
		return b
	}
	if b.Up = m.linear(prefix+"u", c.Hidden, c.Intermediate); !plain {
		b.Gate = m.linear(prefix+"g", c.Hidden, c.Intermediate)
	}
	return b
}

// fused makes one tensor that stacks the rows of several linear layers.
func (m *maker) fused(name string, in int, layers ...*model.Linear) {
	rows := 0
	for _, l := range layers {
		l.Weight, l.In, l.Rows = name, in, model.Rows{From: rows, To: rows + l.Out}
		rows += l.Out
	}
	m.matrix(name, rows, in)
	if m.chance(3) {
		bias := m.floats(name+".bias", 1, rows)
		for _, l := range layers {
			l.Bias = bias
		}
	}
}

func (m *maker) linear(name string, in, out int) model.Linear {
	l := model.Linear{Weight: name, In: in, Out: out, Turned: !m.minima() && m.chance(8)}
	if m.chance(6) && !m.served() {
		l.Scale = 0.7
	}
	if l.Turned {
		m.floatsAs(name, []int{in, out})
	} else {
		m.matrix(name, out, in)
	}
	if m.chance(3) {
		l.Bias = m.floats(name+".bias", 1, out)
	}
	return l
}

// norm makes a norm; an optional one once in often times.
func (m *maker) norm(name string, n, often int) model.Norm {
	switch {
	case !m.chance(often):
		return model.Norm{}
	case m.chance(8):
		return model.Norm{Bare: true}
	case m.chance(4):
		return model.Norm{Weight: m.floats(name, 1, n), Bias: m.floats(name+".bias", 1, n)}
	}
	return model.Norm{Weight: m.floats(name, 1, n)}
}

// headNorm makes the optional norm of query or key heads.
func (m *maker) headNorm(name string, c *model.Config, heads int) model.Norm {
	switch {
	case c.HeadNorm == model.EachHead:
		return m.norm(name, c.HeadDim, 3)
	case c.HeadNorm == model.WholeHead:
		return m.norm(name, heads*c.HeadDim, 3)
	case m.chance(2):
		return model.Norm{Weight: m.floatsAs(name, []int{heads, c.HeadDim})}
	}
	for h := range heads {
		m.floats(fmt.Sprint(name, ".", h), 1, c.HeadDim)
	}
	return model.Norm{Weight: name + ".*"}
}

// floats makes a tensor of floats around 0.5; a single row is a vector.
func (m *maker) floats(name string, rows, cols int) string {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(m.NormFloat64()*0.3 + 0.5)
	}
	m.store(name, rows, cols, x)
	return name
}

func (m *maker) store(name string, rows, cols int, x []float32) {
	shape := []int{rows, cols}
	if rows == 1 {
		shape = shape[1:]
	}
	data := bytesOf(x)
	dtype := pick(m, "F32", "F16", "BF16")
	if dtype != "F32" {
		half := make([]byte, 2*len(x))
		for i, v := range x {
			b := uint16(math.Float32bits(v) >> 16)
			if dtype == "F16" {
				b = b&0x8000 | uint16(m.IntN(0x3c00)) // some number below 1
			}
			binary.LittleEndian.PutUint16(half[2*i:], b)
		}
		data = half
	}
	m.v.plain(name, safetensors.DType(dtype), shape, data)
}

// matrix makes the weights of a linear layer: floats, or codes with one of the kinds of scales.
func (m *maker) matrix(name string, rows, cols int) string {
	if !m.minima() && m.chance(3) {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(m.NormFloat64()) / float32(math.Sqrt(float64(cols)))
		}
		m.store(name, rows, cols, x)
		return name
	}
	alphabets := []pack.Alphabet{pack.Ternary, pack.Int8, pack.Int4}
	if m.served() {
		alphabets = append(alphabets, pack.Int6, pack.Int4Odd, pack.E2M1, pack.IQ4NL, pack.IQ2, pack.IQ3XXS)
	}
	alphabet := pick(m, alphabets...)
	layout := pick(m, "vnni4i", "i2", "blocked") // of ternary codes
	if alphabet.Name != pack.Ternary.Name {
		layout = cmp.Or(map[string]string{pack.Int8.Name: "vnni4", pack.Int6.Name: "vnni4p"}[alphabet.Name], "vnni4i")
	}
	m.codes(name, rows, cols, layout, alphabet, m.minima() || m.chance(3))
	return name
}

// codes makes quantized weights with scales of some kind and type, and sometimes zero points.
func (m *maker) codes(name string, rows, cols int, layout string, alphabet pack.Alphabet, moved bool) {
	c := pack.NewMatrix(pack.Shape{M: rows, K: cols}, alphabet)
	for i := range c.Codes {
		c.Codes[i] = alphabet.Values[m.IntN(len(alphabet.Values))]
	}
	group := pick(m, 0, 0, 16, 32, 64, 128, 256)
	if m.minima() {
		group = pick(m, 16, 32)
	}
	n := pick(m, 1, rows)
	if group > 0 {
		n = rows * ((cols + group - 1) / group)
	}
	e := packed.Entry{Scale: packed.Scale{DType: pick(m, packed.ScaleF32, packed.ScaleF16, packed.ScaleBF16),
		Signed: m.chance(2)}}
	scales, zeros, order, minima := make([]float32, n), []int8(nil), []int32(nil), []byte(nil)
	for i := range scales {
		s := m.Float32() / float32(math.Sqrt(float64(cols))) / float32(slices.Max(alphabet.Values))
		if e.Scale.Signed && m.chance(2) {
			s = -s
		}
		switch scales[i] = s; e.Scale.DType {
		case packed.ScaleF16:
			scales[i] = float16.Widen(float16.Narrow(s))
		case packed.ScaleBF16:
			scales[i] = float16.WidenBrain(float16.NarrowBrain(float64(s)))
		}
	}
	switch {
	case !m.minima() && m.chance(3):
		for range n {
			zeros = append(zeros, int8(m.IntN(17)-8))
		}
	case m.minima() || group > 0 && m.chance(2): // weights are about as symmetric as codes
		e.Min = true
		_, bits := math.Frexp(-float64(alphabet.Values[0]) - 0.5)
		for _, s := range scales {
			var err error
			if minima, err = (packed.Scale{DType: e.Scale.DType, Signed: true}).AppendScale(minima,
				-s*float32(int(1)<<bits)); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	if moved && !(m.served() && m.v.manifest.Activation.Kind != packed.ActivationToken) {
		for _, i := range m.Perm(cols) {
			order = append(order, int32(i))
		}
	}
	e.Name = name
	m.v.store(m.t, stored{e, layout, c, scales, group, zeros, order})
	for _, b := range m.v.manifest.Packed[len(m.v.manifest.Packed)-1].Beside() {
		if b.Suffix == packed.MinSuffix {
			m.v.tensors[name+b.Suffix] = packed.Tensor{Name: name + b.Suffix, DType: safetensors.DType(e.Scale.DType),
				Shape: b.Shape, Data: minima}
		}
	}
}

var _ packed.View = (*view)(nil)

// TestFloatActivations: the option computes the same as a model whose weights are stored as the floats code · scale.
func TestFloatActivations(t *testing.T) {
	for seed := range uint64(10) {
		v, d := randomModel(t, rand.New(rand.NewPCG(seed, 2)), everyFeature)
		plain := newView("{}")
		for name, x := range v.tensors {
			if _, codes := v.manifest.Entry(x.Name); !codes {
				plain.plain(name, x.DType, x.Shape, x.Data)
			}
		}
		for i := range v.manifest.Packed {
			e := &v.manifest.Packed[i]
			var w []float32
			for expert := range e.Experts() {
				w = append(w, product32(t, v, e, expert)...)
			}
			plain.plain(e.Name, "F32", e.Shape[:], bytesOf(w))
		}
		var got [2][][]float32
		for i, e := range []func() (*Engine, error){
			func() (*Engine, error) { return build(v, d, Options{FloatActivations: true}) },
			func() (*Engine, error) { return build(plain, d, Options{}) },
		} {
			e, err := e()
			if err != nil {
				t.Fatal(err)
			}
			got[i] = logits(t, e, []int{1, 2, 3, 4}, 4)
			e.Close()
		}
		compareRows(t, [][][]float32{got[0]}, [][][]float32{got[1]})
	}
}

// product32 dequantizes a matrix: every code times its scale.
func product32(t *testing.T, v packed.View, e *packed.Entry, expert int) []float32 {
	m, err := packed.Codes(v, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	scales, err := packed.ScalesOf(v, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, len(m.Codes))
	zeros, err := packed.ZerosOf(v, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	minima, err := packed.MinimaOf(v, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	order, err := packed.Order(v, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	for row := range m.M {
		for col := range m.K {
			i := 0
			switch e.Scale.Kind {
			case packed.ScaleRow:
				i = row
			case packed.ScaleGroup:
				i = row*((m.K+e.Scale.Group-1)/e.Scale.Group) + col/e.Scale.Group
			}
			at, code := col, int(m.Codes[row*m.K+col])
			if zeros != nil {
				code -= int(zeros[i])
			}
			if order != nil {
				at = int(order[col])
			}
			w[row*m.K+at] = float32(float32(code) * scales[i])
			if minima != nil {
				w[row*m.K+at] += minima[i]
			}
		}
	}
	return w
}
