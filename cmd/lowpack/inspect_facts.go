package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// facts holds the most requested information. Fields that do not apply are absent.
type facts struct {
	Family       string `json:"family,omitempty"`
	Architecture string `json:"architecture,omitempty"` // of config.json
	Parameters   int64  `json:"parameters"`             // of the model as published; of weights alone, all elements
	Quantized    int    `json:"quantized_tensors"`
	// QuantizedBits counts all that is stored per weight of the quantized tensors: codes, padding and scales.
	QuantizedBits float64 `json:"quantized_bits_per_weight,omitempty"`
	FileBits      float64 `json:"file_bits_per_weight,omitempty"` // of all parameters in the whole file
	Context       int     `json:"context,omitempty"`
	Vocabulary    int     `json:"vocabulary,omitempty"`

	Tokenizer      string   `json:"tokenizer,omitempty"` // its kind, if it loads
	TokenizerError string   `json:"tokenizer_error,omitempty"`
	ChatTemplates  []string `json:"chat_templates,omitempty"` // names
	Embeddings     string   `json:"embeddings,omitempty"`     // how they are made of the hidden states; "" = none are
	Scores         string   `json:"scores,omitempty"`         // how they are made of the logits; "" = none are

	Golden  *goldenFacts `json:"golden,omitempty"`  // of packed files
	Verify  string       `json:"verify,omitempty"`  // the command that verifies the file
	Convert string       `json:"convert,omitempty"` // for checkpoints: what lowpack convert would do

	KVCache []cacheFacts `json:"kv_cache,omitempty"`
	// RecurrentState is the bytes that recurrent layers keep of a sequence, of any length. 0 for models without.
	RecurrentState int64 `json:"recurrent_state,omitempty"`
}

// goldenFacts summarizes the coverage of a file's golden outputs.
type goldenFacts struct {
	Mode      packed.GoldenMode `json:"mode"`
	Rows      int64             `json:"rows"` // rows of packed tensors whose products are recorded
	AllRows   int64             `json:"all_rows"`
	Positions int               `json:"positions"` // positions whose logits are recorded
	Texts     int               `json:"texts"`     // texts whose tokens are recorded
}

// cacheFacts gives the cost of a KV cache type.
type cacheFacts struct {
	Type     engine.CacheType `json:"type"`
	PerToken int64            `json:"bytes_per_token"`
	// Memory is what running one sequence with the whole context needs: the packed file and the KV cache, without
	// activations. 0 for checkpoints, which do not run.
	Memory int64 `json:"memory_at_full_context,omitempty"`
}

func (v *inspection) factsOfPacked(f *packed.File) {
	s := &v.Summary
	var weights, bits int64
	for i := range v.Manifest.Packed {
		e := &v.Manifest.Packed[i]
		weights += e.Weights()
		bits += 8 * e.AllBytes()
	}
	if s.Quantized = len(v.Manifest.Packed); weights > 0 {
		s.QuantizedBits = float64(bits) / float64(weights)
	}
	s.Golden = v.goldenOf(f)
	if p := v.Manifest.Pooling; p != nil {
		s.Embeddings = p.String()
	}
	if p := v.Manifest.Scoring; p != nil {
		s.Scores = p.String()
	}
	s.Verify = "lowpack verify " + shellWord(v.Path) + " --source CHECKPOINT"
	v.factsOf(f.Embedded)
	for i := range s.KVCache {
		s.KVCache[i].Memory = v.Bytes + engine.CacheBytesAt(v.Model, s.KVCache[i].Type, s.Context) + s.RecurrentState
	}
}

func (v *inspection) factsOfCheckpoint(ctx context.Context, ck *checkpoint.Checkpoint) {
	if err := v.factsOf(ck.File); err != nil && !errors.Is(err, pack.ErrUnsupported) {
		v.Summary.Convert = "refused: " + err.Error() // for the same reason; to plan would read the tokenizer again
		return
	}
	if v.Model != nil { // what is not supported is a reason to refuse the conversion
		pooled, err := pooling.Parse(ck.File, v.Model)
		scored, scoreErr := scoring.Parse(ck.File, v.Model)
		if err = cmp.Or(err, scoreErr); err != nil {
			v.Summary.Convert = "refused: " + err.Error()
			return
		}
		if pooled != nil {
			v.Summary.Embeddings = pooled.String()
		}
		if scored != nil {
			v.Summary.Scores = scored.String()
		}
	}
	v.Summary.Convert = v.conversion(ctx)
}

// factsOf fills in the facts common to packed files and checkpoints. The error is the tokenizer's, which the facts
// contain too.
func (v *inspection) factsOf(file tokenizer.Files) error {
	v.sizeUp(file)
	s, d := &v.Summary, v.Model
	if d == nil {
		return nil
	}
	s.Context, s.Vocabulary, s.Architecture = d.MaxPositions, d.Vocab, architecture(file)
	s.RecurrentState = d.StateBytes()
	for _, t := range engine.CacheTypes() {
		s.KVCache = append(s.KVCache, cacheFacts{Type: t, PerToken: engine.CacheBytesPerToken(d, t)})
	}
	return v.readTokenizer(file)
}

// sizeUp fills in the family and the size of a model.
func (v *inspection) sizeUp(file tokenizer.Files) {
	s := &v.Summary
	s.Parameters = v.parameters(file)
	if s.Parameters > 0 {
		s.FileBits = 8 * float64(v.Bytes) / float64(s.Parameters)
	}
	if v.Model != nil {
		s.Family = v.Model.Family
	}
}

// architecture is the first that config.json names.
func architecture(file tokenizer.Files) string {
	var config struct{ Architectures []string }
	text, _ := file("config.json")
	if json.Unmarshal(text, &config) != nil || len(config.Architectures) == 0 {
		return ""
	}
	return config.Architectures[0]
}

// parameters counts the parameters of the published model: a head that was quantized from tied embeddings, and rows of
// a candidate filter, do not count.
func (v *inspection) parameters(file tokenizer.Files) (n int64) {
	shapes := map[string][]int{}
	for _, t := range v.Tensors {
		shapes[t.Name] = t.Shape
		if !strings.HasPrefix(t.Name, packed.FilePrefix) && t.Name != packed.ScreenName {
			n += weights(t.Shape)
		}
	}
	if v.Model == nil {
		return n
	}
	config, _ := file("config.json")
	generation, _ := file("generation_config.json")
	has := func(name string) ([]int, bool) { shape, ok := shapes[name]; return shape, ok }
	d, err := model.Parse(config, generation, has)
	if err != nil { // tensors of codes have other names and shapes, from which v.Model was made
		d = v.Model
	}
	n = 0
	for _, t := range d.Tensors() {
		n += weights(t.Shape)
	}
	return n
}

// readTokenizer loads the tokenizer and renders a short conversation; a template that cannot be rendered becomes a
// note.
func (v *inspection) readTokenizer(file tokenizer.Files) error {
	t, err := tokenizer.Load(file)
	if err != nil {
		v.Summary.TokenizerError = err.Error()
		return err
	}
	v.Summary.Tokenizer, v.Summary.ChatTemplates = t.Kind(), t.ChatTemplates()
	v.Example, err = t.Chat([]chat.Message{
		{Role: "user", Content: "Hello."}, {Role: "assistant", Content: "Hi there."}, {Role: "user",
			Content: "Tell me more."},
	}, chat.Options{AddGenerationPrompt: true})
	if err != nil && !errors.Is(err, tokenizer.ErrNoTemplate) {
		v.Notes = append(v.Notes, err.Error())
	}
	return nil
}

// goldenOf reads the golden outputs of a file; an error in them becomes a note.
func (v *inspection) goldenOf(f *packed.File) *goldenFacts {
	m := v.Manifest
	g := &goldenFacts{Mode: packed.GoldenNone}
	if m.Golden == "" {
		return g
	}
	g.Mode = m.Recipe.Golden
	t, err := f.Tensor(packed.GoldenName)
	if err == nil {
		var r *golden.Record
		if r, err = golden.Decode(t.Data); err == nil {
			g.count(m, r)
			return g
		}
	}
	v.Notes = append(v.Notes, err.Error())
	return g
}

// count adds the coverage of a record.
func (g *goldenFacts) count(m *packed.Manifest, r *golden.Record) {
	g.Positions, g.Texts = len(r.Logits), len(r.Texts)
	products := map[string][]golden.Product{}
	for _, p := range r.Products {
		products[p.Tensor] = append(products[p.Tensor], p)
	}
	for i := range m.Packed {
		e := &m.Packed[i]
		g.AllRows += int64(e.Rows())
		g.Rows += golden.Rows(e, products[e.Name])
	}
}

// planLimit is the size up to which inspect reads the weights of a checkpoint.
const planLimit = 256 << 20

// conversion says in a line what lowpack convert would do. Without declared quantization this requires reading all
// weights, which for large files is left to convert.
func (v *inspection) conversion(ctx context.Context) string {
	if (v.Model == nil || v.Model.Quant.Declared == model.Nothing) && v.Bytes > planLimit {
		return "finding out reads all weights: lowpack convert " + shellWord(v.Path) + " --dry-run"
	}
	p, err := convert.NewPlan(ctx, v.Path, convert.Options{})
	if err != nil {
		return "refused: " + err.Error()
	}
	defer p.Close()
	var packs int
	var rules, rounding []string
	for _, r := range p.Tensors {
		if r.Layout == "" {
			continue
		}
		packs++
		if r.RelError == nil && !slices.Contains(rounding, r.Rule) {
			rounding = append(rounding, r.Rule)
		}
		if rule := r.Rule + " to " + r.Layout; !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	weights := "all weights exact"
	if len(rounding) > 0 {
		weights = "weights rounded by " + strings.Join(rounding, ", ")
	}
	return fmt.Sprintf("%d of %d tensors packed (%s), %s; %s", packs, len(p.Tensors),
		cmp.Or(strings.Join(rules, ", "), "all stay as they are"), size(p.Bytes), weights)
}

// factRows returns the facts as lines of a table.
func (v *inspection) factRows() (rows [][]string) {
	s := &v.Summary
	add := func(name, format string, a ...any) { rows = append(rows, []string{name, fmt.Sprintf(format, a...)}) }
	if d := v.Model; d != nil {
		add("model", "%s (%s)", d.Family, cmp.Or(s.Architecture, "no architecture named"))
	} else {
		add("model", "none: weights alone")
	}
	add("parameters", "%s", count(s.Parameters))
	if s.Quantized > 0 {
		add("bits/weight", "%.2f with scales in %d quantized tensors; %.2f in the whole file", s.QuantizedBits,
			s.Quantized,
			s.FileBits)
	} else if s.FileBits > 0 {
		add("bits/weight", "%.2f in the whole file", s.FileBits)
	}
	if m := v.Manifest; m != nil && s.Quantized > 0 {
		add("activations", "int%d, a scale per %s", m.Activation.Bits(), m.Activation.Per())
	}
	add("size", "%s", size(v.Bytes))
	if v.Model != nil {
		rows = append(rows, s.modelRows(v.Model)...)
	}
	if g := s.Golden; g != nil {
		add("golden", "%s", g.text())
	}
	if m := v.Manifest; m != nil {
		add("written by", "%s, format %d; quant %s, layout %s", m.Tool, m.Format, m.Recipe.Quant, m.Recipe.Layout)
		add("verify", "%s", s.Verify)
	}
	if s.Convert != "" {
		add("convert", "%s", s.Convert)
	}
	return rows
}

func (s *facts) modelRows(d *model.Description) (rows [][]string) {
	add := func(name, format string, a ...any) { rows = append(rows, []string{name, fmt.Sprintf(format, a...)}) }
	add("context", "%d tokens", s.Context)
	add("vocabulary", "%d tokens", s.Vocabulary)
	if s.TokenizerError != "" {
		add("tokenizer", "does not load: %s", s.TokenizerError)
	} else {
		add("tokenizer", "%s, loads", s.Tokenizer)
	}
	if len(s.ChatTemplates) > 0 {
		add("chat template", "yes (%s)", strings.Join(s.ChatTemplates, ", "))
	} else {
		add("chat template", "no")
	}
	if s.Embeddings != "" {
		add("embeddings", "%s", s.Embeddings)
	}
	if s.Scores != "" {
		add("scores", "%s", s.Scores)
	}
	var perToken, memory []string
	for _, c := range s.KVCache {
		perToken = append(perToken, fmt.Sprintf("%s %s", c.Type, size(c.PerToken)))
		memory = append(memory, fmt.Sprintf("%s %s", c.Type, size(c.Memory)))
	}
	add("KV cache", "per token: %s", strings.Join(perToken, ", "))
	if s.Golden != nil {
		add("memory", "with full context: %s", strings.Join(memory, ", "))
	}
	head := "own head"
	if d.Head == d.Embed {
		head = "tied head"
	}
	ffn := fmt.Sprintf("FFN %d (%s)", d.Intermediate, d.Activation)
	if d.Intermediate == 0 {
		ffn = "no FFN"
	}
	add("shape", "%d layers, hidden %d, %s, %s", d.Layers, d.Hidden, ffn, head)
	for i := range d.Blocks {
		if x := d.Blocks[i].Experts; x != nil {
			add("experts", "%d of %d for each token, FFN %d", x.Chosen, x.Count, x.Down.In)
			break
		}
	}
	if l := d.Latent; l != nil {
		add("attention", "%d heads of %d and %d, latent keys and values of %d and %d", d.Heads, l.Nope+d.Rope.Dim,
			l.Value, l.Rank, d.Rope.Dim)
		return rows
	}
	n, heads := d.AttentionLayers(), fmt.Sprintf("%d heads of %d, %d KV heads", d.Heads, d.HeadDim, d.KVHeads)
	if g := d.Global; g != nil {
		heads += fmt.Sprintf(" (without a window: heads of %d, %d KV heads)", g.HeadDim, g.KVHeads)
	}
	if own := d.CachedLayers(); own < n {
		heads += fmt.Sprintf("; keys and values in %d layers, which the others read", own)
	}
	switch {
	case n == d.Layers:
		add("attention", "%s", heads)
	case n == 0:
		add("attention", "none")
	default:
		add("attention", "%s, in %d of %d layers", heads, n, d.Layers)
	}
	if s := d.Streams; s != nil {
		add("streams", "%d residual streams", s.Count)
	}
	if x := d.LayerInputs; x != nil {
		add("layer inputs", "%d values of a token for each layer", x.Size)
	}
	if n < d.Layers {
		add("recurrence", "%s, a state of %s per sequence", d.Recurrent(), size(d.StateBytes()))
	}
	return rows
}

func (g *goldenFacts) text() string {
	if g.Mode == packed.GoldenNone {
		return "none"
	}
	return fmt.Sprintf("%s: %d of %d rows, logits of %d positions, %d texts", g.Mode, g.Rows, g.AllRows,
		g.Positions, g.Texts)
}

// count prints a number of parameters.
func count(n int64) string {
	switch {
	case n < 1_000_000:
		return fmt.Sprint(n)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f B", float64(n)/1e9)
}
