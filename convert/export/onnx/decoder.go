package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/rotary"
	floats "github.com/lowpack/lowpack/internal/tensor"
)

// decoder builds the graph of a model in the order of NUMERICS, section 5, with the names of inputs and outputs that
// onnxruntime-genai knows.
type decoder struct {
	*builder
	file       *packed.File
	manifest   *packed.Manifest
	model      *model.Description
	arithmetic export.Arithmetic
	products   map[[2]string]string // results by input and tensor
	codes      map[string]codes     // code formats, by tensor
}

// codes is the form of a tensor's matrices in the graph.
type codes interface {
	of() *coded
	// read reads the codes of one matrix from the data of the tensor.
	read(codes []int8, from io.Reader) error
}

// The dimensions that a call chooses.
const (
	batch      = "batch_size"
	tokens     = "sequence_length"
	pastTokens = "past_sequence_length"
	allTokens  = "total_sequence_length"
)

func (d *decoder) build() error {
	d.inputs = []value{{"input_ids", int64Kind, []any{batch, tokens}},
		{"attention_mask", int64Kind, []any{batch, allTokens}}}
	d.outputs = []value{{"logits", float32Kind, []any{batch, tokens, int64(d.model.Vocab)}}}
	d.lengths()
	if d.arithmetic == export.Exact {
		d.callShape()
	}
	h, err := d.embed()
	if err != nil {
		return err
	}
	for i := range d.model.Blocks {
		if h, err = d.block(i, h); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return d.head(h)
}

// lengths computes the length inputs of GroupQueryAttention: the last position of each sequence, and the total number
// of positions.
func (d *decoder) lengths() {
	sums := d.op("ReduceSum", []string{"attention_mask", d.ints(1)}, "lengths", attribute{"keepdims", int64(0)})
	last := d.op("Sub", []string{sums, d.ints(1)}, "last_positions")
	d.op("Cast", []string{last}, "seqlens_k", attribute{"to", int64(int32Kind)})
	shape := d.op("Shape", []string{"attention_mask"}, "mask_shape")
	all := d.op("Gather", []string{shape, d.integer(1)}, "all_tokens", attribute{"axis", int64(0)})
	d.op("Cast", []string{all}, "total_sequence_length", attribute{"to", int64(int32Kind)})
}

// callShape is the number of sequences, and of tokens of each.
func (d *decoder) callShape() string {
	return d.once("input_shape", func(out string) { d.op("Shape", []string{"input_ids"}, out) })
}

// times multiplies by a factor, if there is one.
func (d *decoder) times(x string, factor float32, out string) string {
	if factor == 0 {
		return x
	}
	return d.op("Mul", []string{x, d.scalar(factor)}, out)
}

// norm adds an RMSNorm, if there is one.
func (d *decoder) norm(x string, n model.Norm, out string) (string, error) {
	if n.Skipped() {
		return x, nil
	}
	plus := float32(0)
	if d.model.NormPlusOne {
		plus = 1
	}
	w, err := d.vector(n.Weight, plus)
	return d.op("SimplifiedLayerNormalization", []string{x, w}, out,
		attribute{"axis", int64(-1)}, attribute{"epsilon", d.model.NormEps}, attribute{"stash_type", int64(1)}), err
}

// block adds layer i, with input h.
func (d *decoder) block(i int, h string) (string, error) {
	b, p := &d.model.Blocks[i], fmt.Sprintf("layers.%d.", i)
	y, err := d.attention(i, b, h, p+"attention.")
	if err != nil {
		return "", err
	}
	h = d.residual(h, y, p+"attention.residual")
	if y, err = d.mlp(b, h, p+"mlp."); err != nil {
		return "", err
	}
	return d.residual(h, y, p+"residual"), nil
}

func (d *decoder) residual(h, y, out string) string {
	return d.op("Add", []string{h, d.times(y, d.model.ResidualScale, out+"/scaled")}, out)
}

func (d *decoder) attention(i int, b *model.Block, h, p string) (string, error) {
	x, err := d.norm(h, b.AttnNorm, p+"norm")
	if err != nil {
		return "", err
	}
	q, err := d.heads(b, x, &b.Q, b.QNorm, d.model.Heads, p+"q")
	if err != nil {
		return "", err
	}
	k, err := d.heads(b, x, &b.K, b.KNorm, d.model.KVHeads, p+"k")
	if err != nil {
		return "", err
	}
	v, err := d.linear(x, &b.V, p+"v")
	if err != nil {
		return "", err
	}
	if x, err = d.grouped(i, b, []string{q, k, v}, p+"heads"); err != nil {
		return "", err
	}
	if x, err = d.norm(x, b.AttnSubNorm, p+"sub_norm"); err != nil {
		return "", err
	}
	if x, err = d.linear(x, &b.O, p+"o"); err != nil {
		return "", err
	}
	return d.norm(x, b.AttnPostNorm, p+"post_norm")
}

// heads adds queries or keys, with a norm over each head or over all heads.
func (d *decoder) heads(
	b *model.Block, x string, l *model.Linear, norm model.Norm, heads int, out string,
) (string, error) {
	y, err := d.linear(x, l, out)
	if err != nil {
		return "", err
	}
	if d.model.RotateFirst {
		if y, err = d.rotated(b, y, heads, out); err != nil {
			return "", err
		}
	}
	if y, err = d.headNorm(y, norm, heads, out); err != nil || d.model.RotateFirst {
		return y, err
	}
	return d.rotated(b, y, heads, out)
}

func (d *decoder) headNorm(y string, norm model.Norm, heads int, out string) (string, error) {
	if norm.Skipped() || d.model.HeadNorm == model.WholeHead {
		return d.norm(y, norm, out+"/norm")
	}
	y = d.op("Reshape", []string{y, d.ints(0, 0, int64(heads), int64(d.model.HeadDim))}, out+"/heads")
	y, err := d.norm(y, norm, out+"/norm")
	return d.op("Reshape", []string{y, d.ints(0, 0, int64(heads*d.model.HeadDim))}, out+"/joined"), err
}

// rotates reports whether GroupQueryAttention rotates queries and keys: if heads have a multiple of 16 values, and
// rotation is the last step before it.
func (d *decoder) rotates() bool { return d.model.HeadDim%16 == 0 && !d.model.RotateFirst }

// rotated rotates queries or keys where GroupQueryAttention does not.
func (d *decoder) rotated(b *model.Block, x string, heads int, out string) (string, error) {
	if b.NoRope || d.rotates() {
		return x, nil
	}
	cos, sin, err := d.tables(b.Local)
	return d.contrib("RotaryEmbedding", []string{x, d.positions(), cos, sin}, out+"/rotated",
		attribute{"interleaved", int64(0)}, attribute{"num_heads", int64(heads)},
		attribute{"rotary_embedding_dim", int64(d.model.Rope.Dim)}), err
}

// positions returns the positions of a call's tokens: the last positions that the mask counts.
func (d *decoder) positions() string {
	return d.once("positions", func(out string) {
		counts := d.op("CumSum", []string{"attention_mask", d.integer(1)}, "counts")
		all := d.op("Max", []string{d.op("Sub", []string{counts, d.ints(1)}, "counts/before"), d.ints(0)},
			"all_positions")
		tokens := d.op("Shape", []string{"input_ids"}, "tokens", attribute{"end", int64(2)},
			attribute{"start", int64(1)})
		d.op("Slice", []string{all, d.op("Neg", []string{tokens}, "tokens/back"), d.ints(math.MaxInt64),
			d.ints(1)}, out)
	})
}

// headSink is the input of GroupQueryAttention with a score of each head for no position.
const headSink = 11

// grouped is the attention of a layer with its rotation and its KV cache.
func (d *decoder) grouped(i int, b *model.Block, qkv []string, out string) (string, error) {
	m := d.model
	in := append(qkv, fmt.Sprintf("past_key_values.%d.key", i), fmt.Sprintf("past_key_values.%d.value", i), "seqlens_k",
		"total_sequence_length")
	attributes := []attribute{{"do_rotary", int64(0)}, {"kv_num_heads", int64(m.KVHeads)}}
	if !b.NoRope && d.rotates() {
		cos, sin, err := d.tables(b.Local)
		if err != nil {
			return "", err
		}
		in, attributes[0].value = append(in, cos, sin), int64(1)
	}
	if b.Sinks != "" {
		sinks, err := d.vector(b.Sinks, 0)
		if err != nil {
			return "", err
		}
		for len(in) < headSink {
			in = append(in, "")
		}
		in = append(in, sinks)
	}
	if b.Local && m.SlidingWindow != 0 {
		attributes = append(attributes, attribute{"local_window_size", int64(m.SlidingWindow)})
	}
	attributes = append(attributes, attribute{"num_heads", int64(m.Heads)}, attribute{"scale", m.AttnScale})
	if m.AttnScale == 0 {
		attributes[len(attributes)-1].value = float32(1 / math.Sqrt(float64(m.HeadDim)))
	}
	if m.AttnSoftcap != 0 {
		attributes = append(attributes, attribute{"softcap", m.AttnSoftcap})
	}
	outs := []string{out}
	for _, s := range []string{"key", "value"} {
		present := fmt.Sprintf("present.%d.%s", i, s)
		d.inputs = append(d.inputs, value{fmt.Sprintf("past_key_values.%d.%s", i, s), float32Kind,
			d.cacheDims(pastTokens)})
		d.outputs, outs = append(d.outputs, value{present, float32Kind, d.cacheDims(allTokens)}), append(outs, present)
	}
	return d.ops(contrib, "GroupQueryAttention", in, outs, attributes), nil
}

func (d *decoder) cacheDims(length string) []any {
	return []any{batch, int64(d.model.KVHeads), length, int64(d.model.HeadDim)}
}

// tables returns the cosines and sines of N17 for all positions.
func (d *decoder) tables(local bool) (cos, sin string, err error) {
	global, own := rotary.Of(&d.model.Rope)
	name, r := "rotary", global
	if local && d.model.Rope.LocalTheta != 0 {
		name, r = "rotary.local", own
	}
	t := &rotations{Rope: r, positions: d.model.FixedPositions()}
	dims := []int64{int64(t.positions), int64(len(r.Inv))}
	if cos, err = d.tensor(name+".cos", float32Kind, dims, t.writeCos); err != nil {
		return "", "", err
	}
	sin, err = d.tensor(name+".sin", float32Kind, dims, t.writeSin)
	return cos, sin, err
}

// rotations writes the tables of all positions.
type rotations struct {
	floats.Rope
	positions int
	sin       []float32 // kept from writeCos, which comes first, for the second table
}

func (r *rotations) writeCos(w io.Writer) error {
	n := len(r.Inv)
	r.sin = make([]float32, r.positions*n)
	cos := make([]float32, n)
	for p := range r.positions {
		r.At(p, floats.Rotation{Cos: cos, Sin: r.sin[p*n:][:n]})
		if err := binary.Write(w, binary.LittleEndian, cos); err != nil {
			return err
		}
	}
	return nil
}

func (r *rotations) writeSin(w io.Writer) error {
	if r.sin == nil {
		if err := r.writeCos(io.Discard); err != nil {
			return err
		}
	}
	sin := r.sin
	r.sin = nil
	for row := range slices.Chunk(sin, len(r.Inv)) {
		if err := binary.Write(w, binary.LittleEndian, row); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mlp(b *model.Block, h, p string) (string, error) {
	x, err := d.norm(h, b.FFNNorm, p+"norm")
	if err != nil {
		return "", err
	}
	if b.Experts != nil {
		x, err = d.mixture(b, x, p)
	} else {
		x, err = d.gated(b, x, p)
	}
	if err != nil {
		return "", err
	}
	return d.norm(x, b.FFNPostNorm, p+"post_norm")
}

// gated is a gated MLP (NUMERICS N19).
func (d *decoder) gated(b *model.Block, x, p string) (string, error) {
	gate, err := d.linear(x, &b.Gate, p+"gate")
	if err != nil {
		return "", err
	}
	up, err := d.linear(x, &b.Up, p+"up")
	if err != nil {
		return "", err
	}
	if x, err = d.norm(d.gate(gate, up, p), b.FFNSubNorm, p+"sub_norm"); err != nil {
		return "", err
	}
	return d.linear(x, &b.Down, p+"down")
}

// gate multiplies up with the activated gate.
func (d *decoder) gate(gate, up, p string) string {
	m := d.model
	if m.Activation != "clamped_swiglu" {
		return d.op("Mul", []string{d.activation(gate, p+"activated"), up}, p+"product")
	}
	gate = d.op("Mul", []string{d.op("Min", []string{gate, d.scalar(m.GateLimit)}, p+"clamped"), d.scalar(m.GateAlpha)},
		p+"scaled")
	up = d.op("Clip", []string{up, d.scalar(-m.GateLimit), d.scalar(m.GateLimit)}, p+"up/clamped")
	up = d.op("Add", []string{up, d.scalar(1)}, p+"up/added")
	return d.op("Div", []string{d.op("Mul", []string{d.activation(gate, p+"activated"), up}, p+"multiplied"),
		d.scalar(m.GateAlpha)}, p+"product")
}

func (d *decoder) activation(x, out string) string {
	switch d.model.Activation {
	case "relu2":
		y := d.op("Relu", []string{x}, out+"/relu")
		return d.op("Mul", []string{y, y}, out)
	case "gelu_tanh":
		return d.op("Gelu", []string{x}, out, attribute{"approximate", "tanh"})
	}
	return d.op("Mul", []string{x, d.op("Sigmoid", []string{x}, out+"/sigmoid")}, out)
}

// head computes the logits.
func (d *decoder) head(h string) error {
	m := d.model
	x, err := d.norm(h, m.FinalNorm, "final_norm")
	if err != nil {
		return err
	}
	steps := []func(x, out string) string{}
	if m.LogitDivisor != 0 {
		steps = append(steps, func(x, out string) string {
			return d.op("Div", []string{x, d.scalar(m.LogitDivisor)}, out)
		})
	}
	if m.LogitSoftcap != 0 {
		steps = append(steps, func(x, out string) string {
			y := d.op("Tanh", []string{d.op("Div", []string{x, d.scalar(m.LogitSoftcap)}, out+"/divided")}, out+"/tanh")
			return d.op("Mul", []string{y, d.scalar(m.LogitSoftcap)}, out)
		})
	}
	out := func(i int) string { return "logits" + strings.Repeat("/raw", len(steps)-i) }
	if x, err = d.matrix(x, m.Head, out(0)); err != nil {
		return err
	}
	for i, step := range steps {
		x = step(x, out(i+1))
	}
	return nil
}
