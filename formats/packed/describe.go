package packed

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// HeadName is the entry of an output head that was quantized from a tied embedding: the checkpoint has no name for it.
const HeadName = "lm_head.weight"

// ScreenName is the entry of int8 rows stored in addition to an output head of floats, so that the engine finds the
// largest logits without reading all of the head (FORMAT F21).
const ScreenName = "lm_head.screen"

// Describe reads the embedded config.json and generation_config.json and checks that v has the tensors that they
// require, and the family of the manifest. For a file of weights alone, whose manifest names no family, it returns
// pack.ErrUnsupported: no model in it has been verified.
func Describe(v View) (*model.Description, error) {
	if v.Manifest().Family == "" {
		return nil, fmt.Errorf("%w: the file holds weights without a model: its manifest names no family (F11). They "+
			"can be verified, not run; convert the model again, with its config.json", pack.ErrUnsupported)
	}
	config, ok := v.Embedded("config.json")
	if !ok {
		return nil, fmt.Errorf("%w: the file holds weights without a config.json: they can be verified, not run",
			pack.ErrUnsupported)
	}
	generation, _ := v.Embedded("generation_config.json")
	shapes := v.Manifest().shapes()
	d, err := model.Parse(config, generation, func(name string) ([]int, bool) {
		shape, ok := shapes[name]
		return shape, ok
	})
	if err != nil {
		return nil, err
	}
	if family := v.Manifest().Family; d.Family != family {
		return nil, fmt.Errorf("%w: the manifest names family %q, config.json is of family %q (F11)", pack.ErrCorrupt,
			family, d.Family)
	}
	if _, quantized := v.Manifest().Entry(HeadName); quantized {
		d.Head = HeadName
	}
	if s := v.Manifest().Scoring; s != nil {
		if err := s.CheckVocab(d.Vocab); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	return d, v.Manifest().checkEmbedding(d.Embed)
}

// checkEmbedding rejects a quantized embedding whose rows could not be decoded one by one (F10).
func (m *Manifest) checkEmbedding(name string) error {
	e, quantized := m.Entry(name)
	if !quantized {
		return nil
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return err
	}
	if _, ok := l.(pack.Paneled); !ok || e.Order || len(e.Shape) != 2 {
		return fmt.Errorf("%w: %q: a quantized embedding has one matrix, in a layout in row panels such as vnni4i, "+
			"without an order of columns; this one has shape %v in layout %s (F10)",
			pack.ErrUnsupported, e.Name, e.Shape,
			e.Layout.Name)
	}
	return nil
}

// shapes returns the shapes of all tensors, quantized ones by their name in the checkpoint.
func (m *Manifest) shapes() map[string][]int {
	shapes := map[string][]int{}
	for _, e := range m.Packed {
		shapes[e.Name] = e.Shape
	}
	for _, p := range m.Plain {
		shapes[p.Name] = p.Shape
	}
	return shapes
}
