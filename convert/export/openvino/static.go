package openvino

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/rotary"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// Cache is the kind of KV cache of static-shape models.
type Cache string

const (
	// States keeps the KV cache in the models, as ReadValue and Assign: the newest token is last, the oldest drops out.
	States Cache = "states"
	// Inputs passes the KV cache as inputs, in any order, and returns the keys and values of new tokens as outputs,
	// which the caller adds to the cache.
	Inputs Cache = "inputs"
)

// Caches lists them.
func Caches() []string { return []string{string(States), string(Inputs)} }

// Static describes static-shape models, the only ones that NPU compilers accept: one for the embedding, several for
// groups of layers, one for the output head (NITRO, Fei and Abdelfattah 2024).
type Static struct {
	Cache   Cache
	Context int // tokens that the KV cache holds; 0: 1024, or the positions of the model if these are fewer
	Prefill int // tokens per prefill pass; 1: no prefill models; 0: 128, or the context if it is less
	Layers  int // of each model; 0: 16
	Bits    int // minimum bits per code: 2, 4 or 8; 0: 4, the fewest that NPU compilers are known to accept
}

const (
	defaultContext = 1024
	defaultPrefill = 128
	defaultLayers  = 16
	defaultBits    = 4
)

// ExportStatic is Export for static-shape models. Its directory follows NITRO: model/0.xml, model/1.xml and so on
// process one token; the models in prefill_model process several, and share the data files of the others.
func ExportStatic(
	ctx context.Context, path, dir string, a export.Arithmetic, s Static, p export.Progress,
) (*export.Summary, error) {
	return write(ctx, path, dir, a, &s, p)
}

// completed fills in defaults and refuses invalid values.
func (s Static) completed(d *model.Description) (*Static, error) {
	set := func(to *int, value int) {
		if *to == 0 {
			*to = value
		}
	}
	set(&s.Context, min(defaultContext, d.FixedPositions()))
	set(&s.Prefill, min(defaultPrefill, s.Context))
	set(&s.Layers, defaultLayers)
	set(&s.Bits, defaultBits)
	switch {
	case !slices.Contains(Caches(), string(s.Cache)):
		return nil, fmt.Errorf("%w: static KV cache %q: must be one of %s", pack.ErrUnsupported, s.Cache,
			strings.Join(Caches(), ", "))
	case s.Context < 2 || s.Context > d.FixedPositions():
		return nil, fmt.Errorf("%w: static context of %d tokens: the model has 2 to %d positions",
			pack.ErrLimit, s.Context,
			d.FixedPositions())
	case s.Prefill < 1 || s.Prefill > s.Context:
		return nil, fmt.Errorf("%w: prefill of %d tokens: must be 1 to %d, the static context", pack.ErrLimit,
			s.Prefill, s.Context)
	case s.Layers < 1:
		return nil, fmt.Errorf("%w: %d layers in a model: must be at least 1", pack.ErrLimit, s.Layers)
	case s.Bits != 2 && s.Bits != 4 && s.Bits != 8:
		return nil, fmt.Errorf("%w: codes of %d bits: must be 2, 4 or 8", pack.ErrUnsupported, s.Bits)
	}
	return &s, nil
}

// Names of the fields of Static in rt_info.
const (
	cacheKey   = "kv_cache"
	contextKey = "context"
	prefillKey = "prefill"
	layersKey  = "layers"
	bitsKey    = "bits"
)

// fields of rt_info; none of a dynamic model.
func (s *Static) fields() []field {
	if s == nil {
		return nil
	}
	return []field{
		{name: cacheKey, value: string(s.Cache)}, {name: contextKey, value: strconv.Itoa(s.Context)},
		{name: prefillKey, value: strconv.Itoa(s.Prefill)}, {name: layersKey, value: strconv.Itoa(s.Layers)},
		{name: bitsKey,
			value: strconv.Itoa(s.Bits)},
	}
}

// static returns the Static that a model declares.
func (n *node) static() (*Static, error) {
	var err error
	text := func(key string) string {
		if x := n.find("rt_info", "lowpack", key); x != nil {
			return x.value("value")
		}
		return ""
	}
	number := func(key string) int {
		x, wrong := strconv.Atoi(text(key))
		if wrong != nil || x < 1 {
			err = corrupt("%s %q in rt_info", key, text(key))
		}
		return x
	}
	s := &Static{Cache(text(cacheKey)), number(contextKey), number(prefillKey), number(layersKey), number(bitsKey)}
	return s, err
}

// Directories of the models for one token, and for several tokens.
const (
	oneDir     = "model/"
	prefillDir = "prefill_model/"
)

// firstStatic is the first file of a directory of static shapes.
const firstStatic = oneDir + "0.xml"

// cut plans the models of static shapes.
func (m *exported) cut(s Static) (err error) {
	if m.static, err = s.completed(m.model); err != nil {
		return err
	}
	m.passes("0.xml", (*decoder).tokens)
	n := 1
	for from := 0; from < len(m.model.Blocks); from += m.static.Layers {
		to := min(from+m.static.Layers, len(m.model.Blocks))
		m.passes(strconv.Itoa(n)+".xml", func(d *decoder, tokens int) { d.group(from, to, tokens) })
		n++
	}
	last := m.decoder(newBuilder())
	last.head(last.parameter("x", f32, fixed(1, 1, m.model.Hidden)))
	m.graph(oneDir+strconv.Itoa(n)+".xml", last.builder, false)
	m.passes("rotary.xml", (*decoder).tables)
	return m.err()
}

// passes plans the model for one token, and that for a pass of several, with the same data.
func (m *exported) passes(name string, build func(d *decoder, tokens int)) {
	one := m.decoder(newBuilder())
	build(one, 1)
	m.graph(oneDir+name, one.builder, false)
	if m.static.Prefill > 1 {
		several := m.decoder(sharing(one.data))
		build(several, m.static.Prefill)
		m.graph(prefillDir+name, several.builder, true)
	}
}

// fixed is the shape of an input.
func fixed(dims ...int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ","), "[]")
}

// tokens is the model of the embedding.
func (d *decoder) tokens(n int) {
	d.result("x", d.embed(d.parameter("token", i64, fixed(1, n))))
}

// group builds the model of some layers. Its hidden states are x on input and x_out on output: OpenVINO renames an
// output that has the name of an input.
func (d *decoder) group(from, to, tokens int) {
	x := d.parameter("x", f32, fixed(1, tokens, d.model.Hidden))
	d.inputs(d.model.Blocks[from:to], tokens)
	for i := from; i < to; i++ {
		x = d.block(i, x)
	}
	d.result("x_out", x)
	for _, r := range d.call.rows {
		d.result(r.name, r.value)
	}
}

// inputs adds the inputs that blocks need besides hidden states: masks, which are added to scores, and rotations.
func (d *decoder) inputs(blocks []model.Block, tokens int) {
	need := func(what func(b model.Block) bool) bool { return slices.ContainsFunc(blocks, what) }
	windowed := func(b model.Block) bool { return b.Local && d.model.SlidingWindow != 0 }
	local := func(b model.Block) bool { return b.Local && d.model.Rope.LocalTheta != 0 }
	d.call.tokens, d.call.keys, d.call.append = tokens, d.static.Context, d.shifted
	if d.static.Cache == Inputs {
		d.call.keys, d.call.append = d.static.Context+tokens, d.beside
	}
	mask := fixed(1, 1, tokens, d.call.keys)
	if need(func(b model.Block) bool { return !windowed(b) }) {
		d.call.mask = d.parameter("mask", f32, mask)
		d.call.window = d.call.mask
	}
	if need(windowed) {
		d.call.window = d.parameter("mask_local", f32, mask)
	}
	if need(func(b model.Block) bool { return !b.NoRope && !local(b) }) {
		d.call.global = d.given("freqs_cis", tokens)
		d.call.local = d.call.global
	}
	if need(func(b model.Block) bool { return !b.NoRope && local(b) }) {
		d.call.local = d.given("freqs_cis_local", tokens)
	}
}

// given is a rotation as input: for each token the cosines and sines of all pairs.
func (d *decoder) given(name string, tokens int) rotation {
	x := d.parameter(name, f32, fixed(tokens, d.model.Rope.Dim/2, 2))
	part := func(what string, i int64) value {
		y := d.gather(name+"/"+what+"/pairs", f32, x, d.int(i), d.int(-1))
		return d.concat(name+"/"+what, f32, -1, y, y)
	}
	return rotation{part("cos", 0), part("sin", 1)}
}

// cacheName returns the name of the keys or values of a layer.
func cacheName(i int, what string) string { return fmt.Sprintf("cache_%c_%d", what[0], i) }

// shifted appends keys or values to a state and drops the oldest ones.
func (d *decoder) shifted(i int, what string, x value) value {
	name, dims := cacheName(i, what), []int{1, d.model.KVHeads, d.static.Context, d.model.HeadDim}
	id := attribute{"variable_id", name}
	empty := d.float("Broadcast", name+"/empty",
		[]value{d.scalar(0), d.ints(int64(dims[0]), int64(dims[1]), int64(dims[2]), int64(dims[3]))},
		attribute{"mode", "numpy"})
	past := d.float("ReadValue", name, []value{empty}, id, attribute{"variable_type", "f32"},
		attribute{"variable_shape", fixed(dims...)})
	present := d.concat(name+"/present", f32, 2, d.slice(name+"/past", past, d.call.tokens, d.static.Context, 2), x)
	d.float("Assign", name+"/assign", []value{present}, id)
	return present
}

// beside takes earlier keys or values as input, and returns the new ones also as output.
func (d *decoder) beside(i int, what string, x value) value {
	name := cacheName(i, what)
	past := d.parameter(name, f32, fixed(1, d.model.KVHeads, d.static.Context, d.model.HeadDim))
	d.call.rows = append(d.call.rows, row{name + "_out", x})
	return d.concat(name+"/present", f32, 2, past, x)
}

// row is an output of new keys or values.
type row struct {
	name string
	value
}

// tables builds the model with the rotations of all positions.
func (d *decoder) tables(tokens int) {
	position := d.parameter("position", i64, fixed(tokens))
	global, local := rotary.Of(&d.model.Rope)
	d.table("freqs_cis", global, position)
	if d.model.Rope.LocalTheta != 0 {
		d.table("freqs_cis_local", local, position)
	}
}

func (d *decoder) table(name string, r tensor.Rope, position value) {
	pairs := len(r.Inv)
	all := d.constant(name+"/table", f32, []int64{int64(d.static.Context), int64(pairs), 2}, func(w io.Writer) error {
		at, both := tensor.Rotation{Cos: make([]float32, pairs), Sin: make([]float32, pairs)}, make([][2]float32, pairs)
		for p := range d.static.Context {
			r.At(p, at)
			for i := range both {
				both[i] = [2]float32{at.Cos[i], at.Sin[i]}
			}
			if err := binary.Write(w, binary.LittleEndian, both); err != nil {
				return err
			}
		}
		return nil
	})
	d.result(name, d.gather(name, f32, all, position, d.int(0)))
}
