// Package convert turns a checkpoint into a packed file, in bounded memory: a plan with a rule for each tensor, and the
// pipeline that carries it out. [Repack] changes the layout of a packed file, [Unpack] turns it back into a checkpoint.
//
// [NewPlan] reads headers only, and says what would be done ([Plan.Tensors], [Plan.Notes]); [Plan.Run] does it. The
// target appears complete or not at all. The same checkpoint, options and version give the same bytes, whatever the
// number of threads. Errors wrap [pack.ErrCorrupt], [pack.ErrUnsupported] or [pack.ErrLimit] and name file, tensor and
// remedy.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/version"
)

// Plan says what a conversion does with every tensor. NewPlan reads no more of the weights than it must to decide; the
// exported fields are for people and programs to inspect.
type Plan struct {
	Family  string        `json:"family"` // "" = weights without a model
	Recipe  packed.Recipe `json:"recipe"`
	Tensors []Row         `json:"tensors"` // by name
	Notes   []string      `json:"notes"`   // what a user should know and act on
	Details []string      `json:"details"` // oddities of the checkpoint, and omissions, without effect
	Bytes   int64         `json:"bytes"`   // size of the packed file

	Activation string `json:"activation"` // token, group:N, token16 or group16:N

	path     string // of the checkpoint, as the user gave it
	source   *checkpoint.Checkpoint
	read     pipeline.ReadFunc
	model    *model.Description          // nil for weights alone
	pooling  *pooling.Pooling            // nil = the checkpoint declares no embeddings
	scoring  *scoring.Scoring            // nil = the checkpoint declares no scores
	scheme   *quantized.Scheme           // of codes in another format; nil: none
	layers   map[string]*quantized.Layer // that these are in, by the name of the weight
	steps    []*step                     // one per row
	contents packed.Contents
	texts    []golden.Text // encoded by the tokenizer
	calibration
	golden *golden.Record // without results; nil: none
	o      Options
	fs     atomicfile.FS
	limits pipeline.Limits
	ran    atomic.Bool
}

// Row is the plan of one tensor.
type Row struct {
	Tensor   string `json:"tensor"`
	Shape    []int  `json:"shape"`
	DType    string `json:"dtype"`  // in the checkpoint
	Rule     string `json:"rule"`   // quantizer, or "keep"
	Layout   string `json:"layout"` // "" = kept
	Alphabet string `json:"alphabet,omitempty"`
	Scale    string `json:"scale,omitempty"` // tensor, row or group:N
	// bytes in the checkpoint; 0 if another row made from the same tensor counts them
	BytesIn       int64    `json:"bytes_in"`
	BytesOut      int64    `json:"bytes_out"` // scales included
	BitsPerWeight float64  `json:"bits_per_weight"`
	RelError      *float64 `json:"relative_error"` // ‖W − Ŵ‖/‖W‖; null until measured. 0 for lossless imports
	Note          string   `json:"note,omitempty"`
}

// step is what Run does with one tensor: its row in the plan, and either a passthrough tensor or an entry with the
// source and the decoder of its codes (package pipeline).
type step struct {
	row       Row
	from      checkpoint.Tensor // passthrough tensor, or the (first) tensor with the codes
	entry     *packed.Entry     // nil: passthrough
	source    pipeline.Source
	open      func(beside [][]byte) (coder, error)
	twice     bool         // open gives a pipeline.Measurer
	untrained int          // values that a code has, where nothing declares that the weights were trained for them
	job       quantize.Job // of floats, for Measure
	use       calibrate.Use

	outcome outcome // of Run
}

// NewPlan opens the checkpoint at path and decides what to do with every tensor. It refuses all that Run would refuse,
// except what only reading all weights shows. The caller closes the plan.
func NewPlan(ctx context.Context, path string, o Options) (*Plan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	source, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Recipe: o.Recipe, Notes: append([]string{}, source.Warnings()...), Details: append([]string{},
			source.Details()...),
		path: path, source: source, read: source.ReadAt, o: o, fs: atomicfile.OS, limits: pipeline.UsualLimits,
	}
	if err := p.decideAll(ctx); err != nil {
		source.Close()
		return nil, filerr.Named(path, err)
	}
	return p, nil
}

// Close closes the checkpoint.
func (p *Plan) Close() error { return p.source.Close() }

func (p *Plan) decideAll(ctx context.Context) error {
	if err := p.describe(); err != nil {
		return err
	}
	d := &decider{Plan: p, ctx: ctx, used: map[string]bool{}, asFloats: map[string]string{},
		following: following{map[int]string{}, map[int]bool{}}}
	if err := d.all(); err != nil {
		return err
	}
	p.noteMissing()
	d.adviseText()
	if err := d.warnFewBits(); err != nil {
		return err
	}
	if err := errors.Join(p.checkTexts(), p.planCalibration()); err != nil {
		return err
	}
	slices.SortFunc(p.steps, func(a, b *step) int { return cmp.Compare(a.row.Tensor, b.row.Tensor) })
	if err := p.fillContents(); err != nil {
		return err
	}
	for _, s := range p.steps {
		p.Tensors = append(p.Tensors, s.row)
	}
	var err error
	p.Bytes, err = p.contents.Size()
	return err
}

// noteMissing notes what the packed file will lack because the checkpoint lacks it.
func (p *Plan) noteMissing() {
	switch {
	case p.model == nil:
		p.note("there is no config.json: weights alone, which are verified but not run; put it beside them to run " +
			"the model")
	case !p.hasTokenizer():
		p.note("there is no tokenizer.json, tokenizer.model, or vocab.json with merges.txt: the packed file will not " +
			"run text. Put the tokenizer of the model beside its config.json")
	}
	packs := func(s *step) bool { return s.entry != nil }
	if p.model != nil && p.Recipe.Quant == QuantAuto && !slices.ContainsFunc(p.steps, packs) {
		p.adviseFloats()
	}
}

// describe reads config.json, if present, and checks names and shapes of all tensors.
func (p *Plan) describe() (err error) {
	config := p.source.Config()
	if config == nil {
		return nil
	}
	generation, _ := p.source.File("generation_config.json")
	if err := p.findLayers(config); err != nil {
		return err
	}
	p.model, err = model.Parse(config, generation, p.scheme.Shapes(p.lookup))
	if err != nil {
		return err
	}
	p.Family, p.Notes = p.model.Family, append(p.Notes, p.model.Notes()...)
	if p.scoring, err = scoring.Parse(p.source.File, p.model); err != nil {
		return err
	}
	return p.describePooling()
}

// describePooling reads how the model makes embeddings, if it does.
func (p *Plan) describePooling() (err error) {
	if p.pooling, err = pooling.Parse(p.source.File, p.model); p.pooling == nil {
		return err
	}
	names, usual, err := pooling.Prompts(p.source.File)
	if usual != "" {
		p.note("config_sentence_transformers.json names prompts (%s), and %q as that of every text: whoever asks for "+
			"embeddings puts it in front of the text", strings.Join(names, ", "), usual)
	} else if len(names) > 0 {
		p.detail("config_sentence_transformers.json names prompts (%s): whoever asks for embeddings puts them in "+
			"front of the text", strings.Join(names, ", "))
	}
	return err
}

// embeddedFiles returns the small files of the checkpoint that are embedded in the packed file (FORMAT F7); any of them
// may hold the tokenizer.
func embeddedFiles(c *checkpoint.Checkpoint) (names []string) {
	for _, name := range modelfile.Names() {
		if _, ok := c.File(name); ok {
			names = append(names, name)
		}
	}
	return names
}

// fillContents lists the contents of the packed file.
func (p *Plan) fillContents() error {
	m := packed.Manifest{Tool: version.Tool, Family: p.Family, Pooling: p.pooling, Scoring: p.scoring, Recipe: p.Recipe}
	for _, s := range p.source.Sources() {
		m.Sources = append(m.Sources, packed.Source{Name: s.Name, Size: s.Size})
	}
	for _, s := range p.steps {
		if s.entry != nil {
			m.Packed = append(m.Packed, *s.entry)
		} else {
			m.Plain = append(m.Plain, packed.Plain{Name: s.from.Name, DType: s.from.DType, Shape: s.from.Shape})
		}
	}
	m.Activation = activationOf(&p.Recipe, m.Packed, p.ofVocabulary)
	p.Activation = m.Activation.String()
	for _, name := range embeddedFiles(p.source) {
		b, _ := p.source.File(name)
		m.Plain = append(m.Plain, packed.Plain{Name: packed.FilePrefix + name, DType: "U8", Shape: []int{len(b)}})
	}
	p.contents = packed.Contents{Manifest: m}
	var err error
	p.golden, err = planGolden(&p.contents, p.described(), p.texts)
	return err
}

func (p *Plan) note(format string, a ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, a...)) }

func (p *Plan) detail(format string, a ...any) {
	p.Details = append(p.Details, fmt.Sprintf(format, a...))
}
