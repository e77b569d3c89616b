package openvino

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/rotary"
)

// decoder builds the graph of a model in the order of NUMERICS, section 5, with the inputs, outputs and states of a
// model exported by optimum-intel.
type decoder struct {
	*builder
	*source
	products map[product]value // results by input and tensor
	call     call
}

// source holds what graphs are built from.
type source struct {
	file       *packed.File
	manifest   *packed.Manifest
	model      *model.Description
	arithmetic export.Arithmetic
	static     *Static // nil if shapes are dynamic
	forms      map[string]*form
}

func (s *source) decoder(b *builder) *decoder {
	d := &decoder{builder: b, source: s, products: map[product]value{}}
	d.options()
	return d
}

// call holds the inputs of a call of the model, and values derived from them.
type call struct {
	beams  value
	empty  value // a state without tokens
	global rotation
	local  rotation
	// 0 where a token attends, else a large negative number; window: of local blocks
	mask, window value
	append       func(i int, what string, x value) value // returns all keys or values of a layer, new ones included

	// of static shapes
	tokens, keys int // new tokens; all that the cache has
	rows         []row
}

// rotation holds the cosines and sines of all tokens as [batch, 1, tokens, size].
type rotation struct{ cos, sin value }

// dynamic builds the model of any number of tokens.
func (d *decoder) dynamic() {
	d.call.append = d.state
	ids := d.parameter("input_ids", i64, "?,?")
	attention := d.parameter("attention_mask", i64, "?,?")
	positions := d.parameter("position_ids", i64, "?,?")
	d.call.beams = d.parameter("beam_idx", i32, "?")
	d.rotations(positions)
	d.states(ids)
	d.masks(ids, attention)
	h := d.embed(ids)
	for i := range d.model.Blocks {
		h = d.block(i, h)
	}
	d.head(h)
}

// rotations computes the cosines and sines of N17, in float32.
func (d *decoder) rotations(positions value) {
	p := d.convert("rotary/positions", d.op("Unsqueeze", "rotary/rows", i64, []value{positions, d.int(1)}), f32)
	global, local := rotary.Of(&d.model.Rope)
	d.call.global = d.rotation("rotary", global.Inv, global.Amplitude, p)
	d.call.local = d.call.global
	if d.model.Rope.LocalTheta != 0 {
		d.call.local = d.rotation("rotary/local", local.Inv, local.Amplitude, p)
	}
}

func (d *decoder) rotation(name string, inv []float64, amplitude float64, positions value) (r rotation) {
	var data []byte
	for _, x := range inv {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
	}
	frequencies := d.constant(name+"/inv_freq", f32, []int64{1, int64(len(inv)), 1}, folder.Whole(data))
	angles := d.float("MatMul", name+"/angles", []value{frequencies, positions}, attribute{"transpose_a", "false"},
		attribute{"transpose_b", "false"})
	angles = d.transpose(name+"/transposed", angles, 0, 2, 1)
	both := d.concat(name+"/both", f32, -1, angles, angles)
	part := func(op string) value {
		x := d.float(op, name+"/"+op, []value{both})
		if amplitude != 1 {
			x = d.binary("Multiply", name+"/"+op+"/amplitude", x, d.scalar(float32(amplitude)))
		}
		return d.float("Unsqueeze", name+"/"+op+"/heads", []value{x, d.int(1)})
	}
	return rotation{part("Cos"), part("Sin")}
}

// size is a dimension of x, as a vector of one number.
func (d *decoder) size(name string, x value, axis int64) value {
	shape := d.op("ShapeOf", name+"/shape", i64, []value{x}, attribute{"output_type", "i64"})
	return d.gather(name, i64, shape, d.ints(axis), d.int(0))
}

// states adds the initial state of a text.
func (d *decoder) states(ids value) {
	dims := d.concat("states/dimensions", i64, 0, d.size("states/batch", ids, 0), d.ints(int64(d.model.KVHeads)),
		d.ints(0), d.ints(int64(d.model.HeadDim)))
	d.call.empty = d.float("Broadcast", "states/empty", []value{d.scalar(0), dims}, attribute{"mode", "numpy"})
}

// masks computes the attention span of each token: earlier positions that are not padding, and in local blocks only the
// last of them.
func (d *decoder) masks(ids, attention value) {
	scalar := func(name string, x value) value {
		return d.op("Squeeze", name+"/scalar", i64, []value{d.size(name, x, 1), d.int(0)})
	}
	all := scalar("mask/all", attention)
	first := d.op("Subtract", "mask/first", i64, []value{all, scalar("mask/tokens", ids)}, numpy)
	span := func(name string, from value) value {
		return d.op("Range", name, i64, []value{from, all, d.int(1)}, attribute{"output_type", "i64"})
	}
	keys := d.op("Unsqueeze", "mask/keys", i64, []value{span("mask/key_positions", d.int(0)), d.int(0)})
	queries := d.op("Unsqueeze", "mask/queries", i64, []value{span("mask/query_positions", first), d.int(1)})
	there := d.op("Convert", "mask/there", boolean,
		[]value{d.op("Unsqueeze", "mask/padding", i64, []value{attention, d.ints(1, 2)})},
		attribute{"destination_type", "boolean"})
	both := func(name string, x, y value) value {
		return d.op("LogicalAnd", name, boolean, []value{x, y}, numpy)
	}
	seen := both("mask/seen", d.op("LessEqual", "mask/causal", boolean, []value{keys, queries}, numpy), there)
	d.call.mask = d.masked("mask", seen)
	if d.model.SlidingWindow == 0 {
		d.call.window = d.call.mask
		return
	}
	oldest := d.op("Subtract", "mask/oldest", i64, []value{queries, d.int(int64(d.model.SlidingWindow))}, numpy)
	near := d.op("Greater", "mask/near", boolean, []value{keys, oldest}, numpy)
	d.call.window = d.masked("mask/window", both("mask/seen_near", seen, near))
}

func (d *decoder) masked(name string, seen value) value {
	return d.float("Select", name, []value{seen, d.scalar(0), d.scalar(-math.MaxFloat32)}, numpy)
}

// embed looks tokens up.
func (d *decoder) embed(ids value) value {
	var w value
	if e, quantized := d.manifest.Entry(d.model.Embed); quantized {
		w = d.weights(e)
	} else {
		w = d.unquantized(d.model.Embed)
	}
	ids = d.convert("embedding/ids", ids, i32)
	h := d.gather("embedding", f32, w, ids, d.int(0))
	if e, quantized := d.manifest.Entry(d.model.Embed); quantized && e.Min {
		h = d.embeddedMinima(h, ids, e)
	}
	return d.factor("embedding/scaled", h, d.model.EmbedScale)
}

// factor multiplies by a factor, if there is one.
func (d *decoder) factor(name string, x value, factor float32) value {
	if factor == 0 {
		return x
	}
	return d.binary("Multiply", name, x, d.scalar(factor))
}

// norm adds an RMSNorm, if there is one.
func (d *decoder) norm(x value, n model.Norm, name string) value {
	if n.Skipped() {
		return x
	}
	plus := float32(0)
	if d.model.NormPlusOne {
		plus = 1
	}
	mean := d.float("ReduceMean", name+"/mean", []value{d.binary("Power", name+"/squares", x, d.scalar(2)), d.ints(-1)},
		attribute{"keep_dims", "true"})
	root := d.float("Sqrt", name+"/root", []value{d.binary("Add", name+"/epsilon", mean, d.scalar(d.model.NormEps))})
	inverse := d.op("Divide", name+"/inverse", f32, []value{d.scalar(1), root}, numpy, attribute{"m_pythondiv", "true"})
	return d.binary("Multiply", name, d.binary("Multiply", name+"/normalized", x, inverse), d.vector(n.Weight, plus))
}

// block adds layer i, with input h.
func (d *decoder) block(i int, h value) value {
	b, p := &d.model.Blocks[i], fmt.Sprintf("layers.%d.", i)
	h = d.residual(p+"attention.residual", h, d.attention(i, b, h, p+"attention."))
	return d.residual(p+"residual", h, d.mlp(b, h, p+"mlp."))
}

func (d *decoder) residual(name string, h, y value) value {
	return d.binary("Add", name, h, d.factor(name+"/scaled", y, d.model.ResidualScale))
}

func (d *decoder) attention(i int, b *model.Block, h value, p string) value {
	x := d.norm(h, b.AttnNorm, p+"norm")
	q := d.heads(b, x, &b.Q, b.QNorm, d.model.Heads, p+"q")
	k := d.heads(b, x, &b.K, b.KNorm, d.model.KVHeads, p+"k")
	v := d.split(d.linear(x, &b.V, p+"v"), d.model.KVHeads, p+"v/heads")
	k, v = d.call.append(i, "key", k), d.call.append(i, "value", v)
	y := d.attend(b, []value{q, d.repeated(k, p+"k"), d.repeated(v, p+"v")}, p+"heads")
	y = d.reshape(p+"joined", d.transpose(p+"tokens", y, 0, 2, 1, 3),
		d.ints(0, 0, int64(d.model.Heads*d.model.HeadDim)), true)
	return d.norm(d.linear(d.norm(y, b.AttnSubNorm, p+"sub_norm"), &b.O, p+"o"), b.AttnPostNorm, p+"post_norm")
}

// split reshapes [batch, tokens, heads · size] to [batch, heads, tokens, size].
func (d *decoder) split(x value, heads int, name string) value {
	return d.transpose(name, d.cut(x, heads, name), 0, 2, 1, 3)
}

func (d *decoder) cut(x value, heads int, name string) value {
	return d.reshape(name+"/cut", x, d.ints(0, 0, int64(heads), int64(d.model.HeadDim)), true)
}

// heads are queries or keys, with their norm and their rotation.
func (d *decoder) heads(b *model.Block, x value, l *model.Linear, norm model.Norm, heads int, name string) value {
	y := d.linear(x, l, name)
	before, within, after := model.Norm{}, norm, model.Norm{}
	switch {
	case d.model.HeadNorm == model.WholeHead:
		before, within = norm, model.Norm{}
	case d.model.RotateFirst:
		within, after = model.Norm{}, norm
	}
	y = d.cut(d.norm(y, before, name+"/norm"), heads, name+"/heads")
	y = d.transpose(name+"/heads", d.norm(y, within, name+"/norm"), 0, 2, 1, 3)
	if !b.NoRope {
		y = d.rotated(b, y, name+"/rotated")
	}
	return d.norm(y, after, name+"/norm")
}

// rotated rotates the first values of each head; the others stay.
func (d *decoder) rotated(b *model.Block, x value, name string) value {
	r, n, rest := d.call.global, d.model.Rope.Dim, value{}
	if b.Local {
		r = d.call.local
	}
	partial := n != d.model.HeadDim
	if partial {
		rest = d.slice(name+"/rest", x, n, d.model.HeadDim, 3)
		x = d.slice(name+"/part", x, 0, n, 3)
	}
	negative := d.binary("Multiply", name+"/negative", d.slice(name+"/upper", x, n/2, n, 3), d.scalar(-1))
	swapped := d.concat(name+"/swapped", f32, -1, negative, d.slice(name+"/lower", x, 0, n/2, 3))
	x = d.binary("Add", name, d.binary("Multiply", name+"/cos", x, r.cos),
		d.binary("Multiply", name+"/sin", swapped, r.sin))
	if partial {
		x = d.concat(name+"/whole", f32, -1, x, rest)
	}
	return x
}

// state appends keys or values to the state of earlier tokens.
func (d *decoder) state(i int, what string, x value) value {
	id := attribute{"variable_id", fmt.Sprintf("past_key_values.%d.%spresent.%d.%s", i, what, i, what)}
	shape := fmt.Sprintf("?,%d,?,%d", d.model.KVHeads, d.model.HeadDim)
	name := fmt.Sprintf("past_key_values.%d.%s", i, what)
	past := d.float("ReadValue", name, []value{d.call.empty}, id, attribute{"variable_type", "f32"},
		attribute{"variable_shape", shape})
	past = d.gather(name+"/beams", f32, past, d.call.beams, d.int(0))
	present := d.concat(fmt.Sprintf("present.%d.%s", i, what), f32, 2, past, x)
	d.float("Assign", name+"/assign", []value{present}, id)
	return present
}

// repeated repeats keys or values for each query head.
func (d *decoder) repeated(x value, name string) value {
	m := d.model
	if m.Heads == m.KVHeads {
		return x
	}
	dims := d.dims(x, name)
	x = d.float("Unsqueeze", name+"/groups", []value{x, d.int(2)})
	x = d.float("Broadcast", name+"/broadcast", []value{x, dims}, attribute{"mode", "bidirectional"})
	return d.reshape(name+"/repeated", x, d.ints(0, int64(m.Heads), -1, int64(m.HeadDim)), true)
}

// dims returns the shape of keys or values with the query heads of each as an additional dimension in the middle.
func (d *decoder) dims(x value, name string) value {
	m := d.model
	group := int64(m.Heads / m.KVHeads)
	if d.static != nil {
		return d.ints(1, int64(m.KVHeads), group, int64(d.call.keys), int64(m.HeadDim))
	}
	shape := d.op("ShapeOf", name+"/shape", i64, []value{x}, attribute{"output_type", "i64"})
	part := func(part string, from ...int64) value {
		return d.gather(name+"/"+part, i64, shape, d.ints(from...), d.int(0))
	}
	return d.concat(name+"/repeated_dimensions", i64, 0, part("batch_and_heads", 0, 1), d.ints(group),
		part("tokens_and_size", 2, 3))
}

// attend is the attention of all heads.
func (d *decoder) attend(b *model.Block, qkv []value, name string) value {
	m, mask, scale := d.model, d.call.mask, d.model.AttnScale
	if b.Local {
		mask = d.call.window
	}
	if scale == 0 {
		scale = float32(1 / math.Sqrt(float64(m.HeadDim)))
	}
	if m.AttnSoftcap == 0 {
		return d.float("ScaledDotProductAttention", name, append(qkv, mask, d.scalar(scale)),
			attribute{"causal", "false"})
	}
	scores := d.binary("Multiply", name+"/scaled", d.times(qkv[0], qkv[1], name+"/scores"), d.scalar(scale))
	scores = d.binary("Add", name+"/masked", d.capped(scores, m.AttnSoftcap, name+"/capped"), mask)
	weights := d.float("Softmax", name+"/softmax", []value{scores}, attribute{"axis", "-1"})
	return d.float("MatMul", name, []value{weights, qkv[2]}, attribute{"transpose_a", "false"},
		attribute{"transpose_b", "false"})
}

// capped is c · tanh(x / c).
func (d *decoder) capped(x value, limit float32, name string) value {
	x = d.float("Tanh", name+"/tanh", []value{d.binary("Divide", name+"/divided", x, d.scalar(limit))})
	return d.binary("Multiply", name, x, d.scalar(limit))
}

func (d *decoder) mlp(b *model.Block, h value, p string) value {
	x := d.norm(h, b.FFNNorm, p+"norm")
	x = d.binary("Multiply", p+"product", d.activation(d.linear(x, &b.Gate, p+"gate"), p+"activated"),
		d.linear(x, &b.Up, p+"up"))
	return d.norm(d.linear(d.norm(x, b.FFNSubNorm, p+"sub_norm"), &b.Down, p+"down"), b.FFNPostNorm, p+"post_norm")
}

func (d *decoder) activation(x value, name string) value {
	switch d.model.Activation {
	case "relu2":
		return d.binary("Power", name, d.float("Relu", name+"/relu", []value{x}), d.scalar(2))
	case "gelu_tanh":
		return d.float("Gelu", name, []value{x}, attribute{"approximation_mode", "TANH"})
	}
	return d.float("Swish", name, []value{x})
}

// head computes the logits.
func (d *decoder) head(h value) {
	m := d.model
	x := d.matrix(d.norm(h, m.FinalNorm, "final_norm"), m.Head, "head")
	if m.LogitDivisor != 0 {
		x = d.binary("Divide", "head/divided", x, d.scalar(m.LogitDivisor))
	}
	if m.LogitSoftcap != 0 {
		x = d.capped(x, m.LogitSoftcap, "head/capped")
	}
	d.result("logits", x)
}

// options sets the runtime options that affect the numbers of the graph.
func (d *decoder) options() {
	d.info = []field{
		{name: "lowpack", fields: append([]field{{name: arithmeticKey, value: string(d.arithmetic)}},
			d.static.fields()...)},
		{name: "runtime_options", fields: []field{{name: "DYNAMIC_QUANTIZATION_GROUP_SIZE", value: "0"},
			{name: "KV_CACHE_PRECISION", value: "f32"}}},
	}
}
