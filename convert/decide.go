package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// decider chooses a rule for every tensor.
type decider struct {
	*Plan
	ctx      context.Context
	used     map[string]bool   // tensors of the checkpoint that the model uses
	asFloats map[string]string // reason by tensor: GGUF codes kept as floats
	gridded  int               // matrices of vectors in a grid, of a GGUF
	following
}

// matrix is a tensor that may be quantized.
type matrix struct {
	name    string              // in the packed file
	from    checkpoint.Tensor   // the first of parts
	parts   []checkpoint.Tensor // that hold its rows: one, or one for each expert
	shape   pack.Shape          // the rows of all experts together
	experts int                 // 0 = not an expert matrix
	head    bool                // the output head
}

// single is a matrix that one tensor holds.
func single(name string, t checkpoint.Tensor, s pack.Shape, head bool) matrix {
	return matrix{name: name, from: t, parts: []checkpoint.Tensor{t}, shape: s, head: head}
}

// source returns where the rows are stored.
func (m *matrix) source() pipeline.Source {
	each := m.shape.M / len(m.parts)
	s := pipeline.Rows(m.from, each)
	s.Parts, s.Runs = m.parts, nil
	for i := range m.parts {
		s.Runs = append(s.Runs, pipeline.Run{Part: i, Rows: each})
	}
	return s
}

func (d *decider) all() error {
	if d.model == nil {
		return d.bare()
	}
	for _, n := range d.model.Tensors() {
		layers, err := d.layersOf(n)
		if err == nil && layers != nil {
			err = d.importLayers(n, layers)
		} else if err == nil {
			err = d.need(n)
		}
		if err != nil {
			return err
		}
	}
	d.noteFloats()
	d.noteGrids()
	if err := d.codesOfHead(); err != nil {
		return err
	}
	if name := d.extraHead(); name != "" {
		t, _ := d.source.Lookup(d.model.Head)
		if err := d.matrix(single(name, t, pack.Shape{M: t.Shape[0], K: t.Shape[1]}, true)); err != nil {
			return err
		}
		row := &d.steps[len(d.steps)-1].row
		row.BytesIn, row.Note = 0, cmp.Or(row.Note, "a second form of "+t.Name)
	}
	if err := d.unfollowed(); err != nil {
		return err
	}
	return d.unused()
}

// extraHead returns the name of a quantized copy of the head stored in addition to the head itself, "" for none.
func (d *decider) extraHead() string {
	switch {
	case d.Recipe.Head == packed.HeadScreen:
		return packed.ScreenName
	case d.Recipe.Head != "" && d.model.Head == d.model.Embed:
		return packed.HeadName
	}
	return ""
}

// need decides about a tensor of the model.
func (d *decider) need(n model.Need) error {
	parts := d.partsOf(n)
	if len(parts) == 0 {
		return nil // absent, hence optional: Parse has checked the required tensors
	}
	for _, t := range parts {
		d.used[t.Name] = true
	}
	switch {
	case n.Turned:
		return d.turned(parts[0])
	case len(n.Shape) == 2:
		return d.two(n, parts[0])
	case len(n.Shape) == 3:
		shape := pack.Shape{M: n.Shape[0] * n.Shape[1], K: n.Shape[2]}
		return d.linear(n, matrix{name: n.Name, from: parts[0], parts: parts, shape: shape, experts: n.Shape[0]})
	}
	return d.keep(parts[0], "")
}

// turned decides about linear layers whose tensor is transposed: they stay floats.
func (d *decider) turned(t checkpoint.Tensor) error {
	if c := choose(&d.Recipe, t.Name); !c.keep && c.quant != QuantNone && c.quant != QuantAuto &&
		included(&d.Recipe, t.Name) {
		return fmt.Errorf("%w: %s: tensor %q: its columns are where others have rows, and it is not quantized in this "+
			"form; keep its floats with --quant none, or convert a checkpoint that holds codes (gpt-oss with MXFP4)",
			pack.ErrUnsupported,
			t.File, t.Name)
	}
	return d.keep(t, "floats, for which the checkpoint declares no quantization")
}

// two decides about a tensor of two dimensions.
func (d *decider) two(n model.Need, t checkpoint.Tensor) error {
	m := single(n.Name, t, pack.Shape{M: n.Shape[0], K: n.Shape[1]}, n.Name == d.model.Head)
	if n.Linear || d.embeds(m) {
		return d.linear(n, m)
	}
	return d.keep(t, "")
}

// linear decides about the weights of linear layers and the embedding. GGUF blocks are imported, unless an exact
// quantizer is to examine their weights first, or a rule names the embedding or the head.
func (d *decider) linear(n model.Need, m matrix) error {
	if d.named(m) {
		return d.matrix(m)
	}
	if b := d.blocksOf(m); b != nil && (!b.narrow() || m.head || d.embeds(m)) {
		if done, err := d.importBlocks(m, b); done || err != nil {
			return err
		}
	}
	if m.head || d.embeds(m) {
		if done, err := d.importValues(m); done || err != nil {
			return err
		}
	}
	if n.Linear {
		return d.matrix(m)
	}
	return d.keep(m.from, "")
}

// importValues plans a lossless import of an embedding or head that holds few values, as auto does for other matrices,
// if the recipe does not choose otherwise and every value is reproduced.
func (d *decider) importValues(m matrix) (bool, error) {
	c := choose(&d.Recipe, m.name)
	if d.Recipe.Head != "" || c.keep || c.quant != QuantAuto || c.scale != "" || !included(&d.Recipe, m.name) ||
		!isFloat(m.from.DType) {
		return false, nil
	}
	candidates, err := d.likely(m, c)
	if err != nil {
		return false, err
	}
	steps, held := len(d.steps), error(nil)
	for _, r := range candidates {
		err = d.quantize(m, r.choice(c))
		switch {
		case errors.As(err, new(notExact)):
		case errors.As(err, new(notHeld)): // wider codes may still be held, or else floats hold it
			held = cmp.Or(held, err)
		case err != nil:
			return false, err
		case d.steps[steps].row.RelError != nil:
			return true, nil
		}
		d.steps = d.steps[:steps] // some zeros would change
	}
	if c.ruled != "" {
		return false, held
	}
	return false, nil
}

// partsOf returns the tensors that hold what the model needs: one, one per expert, or none.
func (d *decider) partsOf(n model.Need) (parts []checkpoint.Tensor) {
	if t, ok := d.source.Lookup(n.Name); ok {
		return []checkpoint.Tensor{t}
	}
	for _, name := range n.Parts() {
		t, ok := d.source.Lookup(name)
		if ok {
			parts = append(parts, t)
		}
	}
	return parts
}

// unused refuses tensors that the model would not use, because the packed model would then differ from the published
// one. Some tensors are known to be redundant.
func (d *decider) unused() error {
	tied := d.model.Head == d.model.Embed
	if len(d.model.Outside) > 0 {
		d.note("the text part alone is converted: send no images, which the server refuses")
	}
	spare := make([]int, len(d.model.Spare))
	defer func() { d.noteSpare(spare) }()
	for _, t := range d.source.Tensors() {
		in := slices.IndexFunc(d.model.Spare, func(s model.Spare) bool { return strings.HasPrefix(t.Name, s.Prefix) })
		switch {
		case d.used[t.Name]:
		case d.model.Elsewhere(t.Name):
			d.detail("tensor %q is left out: it is not of the text part", t.Name)
		case in >= 0:
			spare[in]++
		case strings.HasSuffix(t.Name, ".rotary_emb.inv_freq"):
			d.detail("tensor %q is left out: rotary frequencies follow from config.json", t.Name)
		case d.scheme.Unused(t.Name) != "":
			d.detail("tensor %q is left out: it is %s", t.Name, d.scheme.Unused(t.Name))
		case tied && t.Name == packed.HeadName:
			if err := d.sameAsEmbedding(t); err != nil {
				return err
			}
			d.detail("tensor %q is left out: config.json ties the output head to %q", t.Name, d.model.Embed)
		default:
			return fmt.Errorf("%w: %s: tensor %q has no place in family %s; without it the model would be another one",
				pack.ErrUnsupported, t.File, t.Name, d.model.Family)
		}
	}
	return nil
}

// noteSpare tells how many tensors are left out because the model has another use for them.
func (d *decider) noteSpare(counts []int) {
	for i, n := range counts {
		if s := d.model.Spare[i]; n > 0 {
			d.detail("%d tensors %q are left out: they are for %s", n, s.Prefix+"*", s.Use)
		}
	}
}

// sameAsEmbedding refuses a stored head that differs from the embedding to which config.json ties it: transformers
// would use it. They are compared in pieces of at most 1 MiB.
func (d *decider) sameAsEmbedding(head checkpoint.Tensor) error {
	embed, ok := d.source.Lookup(d.model.Embed)
	same := ok && head.DType == embed.DType && slices.Equal(head.Shape, embed.Shape)
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); same && at < head.Size; at += int64(len(a)) {
		n := min(int64(len(a)), head.Size-at)
		if err := errors.Join(d.read(head, a[:n], at), d.read(embed, b[:n], at)); err != nil {
			return err
		}
		same = bytes.Equal(a[:n], b[:n])
	}
	if !same {
		return fmt.Errorf("%w: %s: tensor %q differs from %q, to which config.json ties it; transformers would use "+
			"it: set tie_word_embeddings to false, or remove it",
			pack.ErrUnsupported, head.File, head.Name, d.model.Embed)
	}
	return nil
}

// bare decides about a weight file without config: float matrices are quantized, other tensors are passed through.
func (d *decider) bare() error {
	for _, t := range d.source.Tensors() {
		var err error
		if len(t.Shape) == 2 && t.Shape[0] > 0 && t.Shape[1] > 0 && isFloat(t.DType) {
			err = d.matrix(single(t.Name, t, pack.Shape{M: t.Shape[0], K: t.Shape[1]}, false))
		} else {
			err = d.keep(t, "no matrix of floats")
		}
		if err != nil {
			return err
		}
	}
	return d.unfollowed()
}

func isFloat(t safetensors.DType) bool { return quantize.DType(t).Size() > 0 }

// matrix decides about a tensor that may be quantized.
func (d *decider) matrix(m matrix) error {
	c := d.choose(m)
	if err := d.headConflict(m, c); err != nil {
		return err
	}
	switch {
	case d.declared(m) == model.Packed && m.from.DType == safetensors.U8:
		return d.importCodes(m, c)
	case c.keep || c.quant == QuantNone:
		return d.keepAll(m, "")
	case !included(&d.Recipe, m.name):
		return d.keepAll(m, "not included")
	case c.quant == QuantAuto:
		return d.auto(m, c)
	}
	return d.quantize(m, c)
}

// named reports whether a rule quantizes the embedding or the head by its name, without a pattern.
func (d *decider) named(m matrix) bool {
	return (m.head || d.embeds(m)) && d.quantizesByName(m.name)
}

// quantizesByName reports whether a rule names a quantizer for a tensor, without a pattern.
func (d *decider) quantizesByName(name string) bool {
	return slices.ContainsFunc(d.Recipe.Rules, func(r packed.Rule) bool {
		return r.Match == name && !r.Keep && r.Quant != "" && r.Quant != QuantAuto
	})
}

// choose returns the choice of the recipe for m. The head is quantized by --head, and it and the embedding by a rule
// that names them without a pattern.
func (d *decider) choose(m matrix) choice {
	if !m.head && !d.embeds(m) {
		return choose(&d.Recipe, m.name)
	}
	r := d.Recipe
	r.Quant, r.Scale, r.Rules = cmp.Or(d.headQuant(m.name), QuantNone), "", nil
	for _, rule := range d.Recipe.Rules {
		if rule.Match == m.name {
			r.Rules = append(r.Rules, rule)
		}
	}
	return choose(&r, m.name)
}

// headQuant names the quantizer that the form of the head calls for in a tensor; "" = none.
func (d *decider) headQuant(name string) string {
	switch {
	case d.Recipe.Head == "" || name != cmp.Or(d.extraHead(), d.model.Head):
		return ""
	case d.Recipe.Head == packed.HeadScreen:
		return string(packed.HeadInt8)
	}
	return string(d.Recipe.Head) // the quantizers have these names
}

// declared returns what the checkpoint declares about a matrix.
func (d *decider) declared(m matrix) model.Declared {
	if d.model == nil || m.head || d.model.Quant.Keeps(m.name) {
		return model.Nothing
	}
	return d.model.Quant.Declared
}

// auto follows the checkpoint's declaration; otherwise it imports the narrowest codes that reproduce every value and
// that the layout holds; otherwise it keeps floats.
func (d *decider) auto(m matrix, c choice) error {
	if d.declared(m) == model.AbsMean {
		c.quant = "absmean"
		return d.quantize(m, c)
	}
	rules, err := d.likely(m, c)
	if err != nil {
		return err
	}
	var other notExact
	var unheld error
	for _, r := range rules {
		err := d.quantize(m, r.choice(c))
		switch {
		case errors.As(err, &other):
		case errors.As(err, new(notHeld)): // wider codes may still be held
			unheld = cmp.Or(unheld, err)
		default:
			return err
		}
	}
	if unheld != nil {
		return unheld
	}
	if len(rules) > 0 {
		d.note("%v; so its floats stay floats, although row 0 looks quantized: --quant NAME packs them", other)
	}
	if b := d.blocksOf(m); b != nil && b.narrow() {
		if done, err := d.importBlocks(m, b); done || err != nil {
			return err
		}
	}
	if d.model == nil { // a file of matrices alone is converted to have them packed
		c.quant = "absmean"
		return d.quantize(m, c)
	}
	if d.declared(m) == model.Masters {
		return fmt.Errorf("%w: %s: tensor %q: config.json says that training quantizes these weights before each "+
			"product (%s), but they are floats: quantize them as it does, with its own program or with --quant NAME "+
			"and --allow-lossy (absmean is BitNet's), or keep the floats, which are another model, with --quant none",
			pack.ErrUnsupported, m.from.File, m.name, d.model.Quant.Masters)
	}
	return d.keepAll(m, "floats, for which the checkpoint declares no quantization")
}

// candidate is an exact rule, with the columns of a group that share a scale; 0 = a row.
type candidate struct {
	rule  string
	group int
}

// choice is a choice of the recipe with that rule.
func (r candidate) choice(c choice) choice {
	c.quant = r.rule
	if c.scale == "" && r.group > 0 {
		c.scale = fmt.Sprintf("%s:%d", packed.ScaleGroup, r.group)
	}
	return c
}

// exactGroups lists the group sizes that are tried.
var exactGroups = []int{0, 256, 128, 64, 32}

// likely returns the exact rules that fit the first row of a tensor: per-row scales first, narrowest first, then
// group-wise scales. Ordinary floats fit none.
func (d *decider) likely(m matrix, c choice) (rules []candidate, err error) {
	dtype := quantize.DType(m.from.DType)
	row := make([]byte, m.shape.K*dtype.Size())
	if err := d.read(m.from, row, 0); err != nil {
		return nil, err
	}
	for _, grouped := range []bool{false, true} {
		for _, r := range quantize.Rules() {
			for _, group := range exactGroups {
				if !r.Exact() || grouped != (group > 0) ||
					grouped && (c.scale != "" || group >= m.shape.K || !slices.Contains(r.Kinds, quantize.PerGroup)) {
					continue
				}
				err := r.Try(dtype, 0, row, group)
				if errors.Is(err, pack.ErrCorrupt) {
					return nil, inTensor(m.from, err)
				}
				if err == nil {
					rules = append(rules, candidate{r.Name, group})
				}
			}
		}
	}
	return rules, nil
}

// keepAll passes all tensors of a matrix through.
func (d *decider) keepAll(m matrix, note string) error {
	d.follow(m.name, false)
	for _, t := range m.parts {
		if err := d.keep(t, note); err != nil {
			return err
		}
	}
	return nil
}

// keep passes a tensor through.
func (d *decider) keep(t checkpoint.Tensor, note string) error {
	if d.model != nil && !isFloat(t.DType) {
		return fmt.Errorf("%w: %s: tensor %q has type %s; a model is run from F32, F16, BF16 and packed codes",
			pack.ErrUnsupported, t.File, t.Name, t.DType)
	}
	zero, n := 0.0, 1
	for _, dim := range t.Shape {
		n *= dim
	}
	if kind := t.Dequantized(); kind != "" {
		note = kind + " as the floats of its packer"
	}
	row := Row{
		Tensor: t.Name, Shape: t.Shape, DType: string(t.DType), Rule: ruleKeep,
		BytesIn: t.Size, BytesOut: t.Size, RelError: &zero, Note: cmp.Or(d.asFloats[t.Name], note),
	}
	if n > 0 {
		row.BitsPerWeight = float64(8*t.Size) / float64(n)
	}
	d.steps = append(d.steps, &step{row: row, from: t})
	return nil
}

// ruleKeep is the rule of tensors that are stored as they are.
const ruleKeep = "keep"
