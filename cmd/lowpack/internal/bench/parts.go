package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	definition "github.com/lowpack/lowpack/verify/reference"
)

// part is what a layer of a published model computes between its linear layers, for some tokens at once.
type part struct {
	name   string
	model  string          // a configuration of package synth
	mixer  model.MixerKind // "" = attention
	tokens int             // of a pass
	depth  int             // tokens in front of them, of attention
	config []byte          // of the model
}

// parts lists what is measured. 128 tokens are a pass of a prompt (engine.DefaultBatch).
var parts = []part{
	{name: "attention-decode", model: "llama-3.1-8b", tokens: 1, depth: 4096},
	{name: "attention-prefill", model: "llama-3.1-8b", tokens: 128, depth: 1920},
	{name: "mla-decode", model: "deepseek-v3", tokens: 1, depth: 4096},
	{name: "delta-decode", model: "qwen3-next-80b-a3b", mixer: model.GatedDelta, tokens: 1},
	{name: "delta-prefill", model: "qwen3-next-80b-a3b", mixer: model.GatedDelta, tokens: 128},
	{name: "ssd-decode", model: "granite-4.0-h-tiny", mixer: model.Mamba2, tokens: 1},
	{name: "ssd-prefill", model: "granite-4.0-h-tiny", mixer: model.Mamba2, tokens: 128},
	{name: "conv-decode", model: "lfm2-1.2b", mixer: model.ShortConv, tokens: 1},
	{name: "conv-prefill", model: "lfm2-1.2b", mixer: model.ShortConv, tokens: 128},
}

// PartNames lists the parts of layers that can be measured.
func PartNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// PartRow is a part of a layer: all that the runtime computes between two linear layers.
type PartRow struct {
	Part    string `json:"part"`
	Model   string `json:"model"` // whose shapes it has
	Tokens  int    `json:"tokens"`
	Depth   int    `json:"depth"` // tokens in front of them
	Threads int    `json:"threads"`
	Bytes   int    `json:"bytes"`           // read from memory and written there
	Wrong   string `json:"wrong,omitempty"` // where the result differs from the definition; then there are no figures
	// GOPS and PeakGOPS are of float32; the limit is the loop of fused multiplications and additions of float32.
	Figures
}

// findParts returns parts by name, with the configurations of their models.
func findParts(names []string) (list []part, err error) {
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: part %q; there are %s", pack.ErrUnsupported, name,
				strings.Join(PartNames(), ", "))
		}
		p := parts[i]
		o, err := synth.Find(p.model)
		if err != nil {
			return nil, err
		}
		p.config = o.Config
		list = append(list, p)
	}
	return list, nil
}

// partLayer is a part that is ready to run.
type partLayer interface {
	append(in, out []float32) error // of the tokens of the part, at its depth
	load(in []float32) error
	compute() error
	close()
}

// partOpener opens a part on some threads. Tests replace openPart by wrong parts.
type partOpener func(c *partCase, threads int) (partLayer, error)

// partCase is a part of a random layer with random inputs.
type partCase struct {
	part
	view  *randomView
	layer int
	rows  [][]float32 // inputs: of position i, those of i mod len(rows)
	want  []float32   // outputs of the last token by the definition
}

// inputRows is the number of different inputs. It has no divisor in common with a pass.
const inputRows = 131

// newPartCase makes the layer and its inputs.
func newPartCase(p part) (*partCase, error) {
	v, err := newRandomView(p.config)
	if err != nil {
		return nil, err
	}
	c := &partCase{part: p, view: v}
	if c.layer = slices.IndexFunc(v.d.Blocks, p.of); c.layer < 0 {
		return nil, fmt.Errorf("%w: model %s has no layer for %s", pack.ErrUnsupported, p.model, p.name)
	}
	r, width := rand.New(rand.NewPCG(4, uint64(p.depth))), inputWidth(v.d, &v.d.Blocks[c.layer])
	for range inputRows {
		row := make([]float32, width)
		for i := range row {
			row[i] = 2*r.Float32() - 1
		}
		c.rows = append(c.rows, row)
	}
	return c, nil
}

// of reports whether a block has the part.
func (p part) of(b model.Block) bool {
	if p.mixer == "" {
		return b.HasAttention() && !b.Local
	}
	return b.Mixer != nil && b.Mixer.Kind == p.mixer
}

// inputWidth is the number of outputs of the linear layers in front of the part of a block.
func inputWidth(d *model.Description, b *model.Block) int {
	if b.Mixer != nil {
		return b.Mixer.Inputs()
	}
	return d.AttentionInputs(b)
}

// input joins the inputs of positions [from, to).
func (c *partCase) input(from, to int) (in []float32) {
	for i := from; i < to; i++ {
		in = append(in, c.rows[i%len(c.rows)]...)
	}
	return in
}

// define computes the outputs of the last token by the definition, in plain Go: package reference.
func (c *partCase) define(ctx context.Context) error {
	var l *definition.Layer
	var err error
	if c.mixer == "" {
		l, err = definition.NewLayer(c.view, c.view.d, c.layer, definition.CacheF32)
	} else {
		l, err = definition.NewRecurrentLayer(c.view, c.view.d, c.layer)
	}
	for i := 0; i < c.depth+c.tokens && err == nil; i++ {
		if err = context.Cause(ctx); err == nil {
			c.want, err = l.Append(c.input(i, i+1), i == c.depth+c.tokens-1)
		}
	}
	return err
}

// openPart opens a part of the engine, with the tokens of its depth.
func openPart(c *partCase, threads int) (partLayer, error) {
	o := engine.Options{Threads: threads, Context: c.depth + c.tokens, Batch: max(c.tokens, engine.DefaultBatch)}
	if c.mixer != "" {
		l, err := engine.NewRecurrentLayer(c.view, c.layer, o)
		return &recurrentPart{l}, err
	}
	l, err := engine.NewAttentionLayer(c.view, c.layer, o)
	if err != nil {
		return nil, err
	}
	seq, err := l.NewSequence()
	if err != nil {
		l.Close()
		return nil, err
	}
	for at := 0; at < c.depth; {
		to := min(at+engine.DefaultBatch, c.depth)
		if err := l.Append([]engine.AttentionRows{{Seq: seq, In: c.input(at, to)}}); err != nil {
			l.Close()
			return nil, err
		}
		at = to
	}
	return &attentionPart{l, seq, c.depth}, nil
}

// attentionPart is the attention of tokens at a depth.
type attentionPart struct {
	*engine.AttentionLayer
	seq   *engine.Sequence
	depth int
}

func (p *attentionPart) append(in, out []float32) error {
	err := p.Append([]engine.AttentionRows{{Seq: p.seq, In: in, Out: out}})
	p.seq.Truncate(p.depth)
	return err
}

func (p *attentionPart) load(in []float32) error {
	return p.Load([]engine.AttentionRows{{Seq: p.seq, In: in}})
}

func (p *attentionPart) compute() error { return p.Compute() }
func (p *attentionPart) close()         { p.Close() }

// recurrentPart is the recurrence of tokens, whose state each call takes further.
type recurrentPart struct{ *engine.RecurrentLayer }

func (p *recurrentPart) append(in, out []float32) error { return p.Append(in, out) }
func (p *recurrentPart) load(in []float32) error        { return p.Load(in) }
func (p *recurrentPart) compute() error                 { return p.Compute() }
func (p *recurrentPart) close()                         { p.Close() }

// part measures a part with all numbers of threads.
func (r *kernelRun) part(ctx context.Context, p part, open partOpener) error {
	r.progress(len(r.Rows)+len(r.KernelReport.Parts), r.total, p.name+", its definition")
	c, err := newPartCase(p)
	if err != nil {
		return err
	}
	if err := c.define(ctx); err != nil {
		return err
	}
	for _, l := range r.limits {
		row := PartRow{Part: p.name, Model: p.model, Tokens: p.tokens, Depth: p.depth, Threads: l.pool.Threads()}
		r.progress(len(r.Rows)+len(r.KernelReport.Parts), r.total, p.name+", "+Threads(row.Threads))
		if err := c.row(ctx, &r.Meter, l, open, &row); err != nil {
			return err
		}
		r.KernelReport.Parts = append(r.KernelReport.Parts, row)
	}
	return nil
}

// row compares and measures a part on the threads of some limits.
func (c *partCase) row(ctx context.Context, m *Meter, l *limits, open partOpener, row *PartRow) error {
	of, err := open(c, row.Threads)
	if err != nil {
		return err
	}
	defer of.close()
	w := c.work()
	row.Bytes = w.bytes
	in := c.input(c.depth, c.depth+c.tokens)
	out := make([]float32, c.tokens*len(c.want))
	if err := of.append(in, out); err != nil {
		return err
	}
	if row.Wrong = c.compare(out[len(out)-len(c.want):]); row.Wrong != "" {
		return nil
	}
	var failed error
	keep := func(err error) {
		if err != nil {
			failed = err
		}
	}
	row.Figures, err = l.measureCold(ctx, m, w, func() { keep(of.load(in)) }, func() { keep(of.compute()) })
	if err != nil {
		return err
	}
	return failed
}

// compare returns where the outputs of the last token differ from the definition; "" if nowhere.
func (c *partCase) compare(got []float32) string {
	for i, v := range got {
		if math.Float32bits(v) != math.Float32bits(c.want[i]) {
			return fmt.Sprintf("output %d of token %d: %v instead of %v", i, c.tokens-1, v, c.want[i])
		}
	}
	return ""
}

// work is what the part has to do. Bytes are what no cache holds when a layer begins; inputs and outputs are in one.
// Operations are those of sums of products: softmax, norms, rotations, exponentials and gates after a state count as
// nothing, so a fraction says how near all of it comes to a part without them.
func (c *partCase) work() work {
	w := work{isa: kernel.Best(), scale: 1, floats: true}
	d, b := c.view.d, &c.view.d.Blocks[c.layer]
	switch {
	case c.mixer != "":
		w.bytes, w.ops = recurrentWork(b.Mixer, c.tokens)
	case d.Latent != nil:
		w.bytes, w.ops = latentWork(&d.Config, c.tokens, c.depth)
	default:
		w.bytes, w.ops = attentionWork(&d.Config, c.tokens, c.depth)
	}
	return w
}
