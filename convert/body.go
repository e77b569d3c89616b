package convert

import (
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Matrices describes matrices of the same shape and alphabet that one pass of a model multiplies.
type Matrices struct {
	Shape    pack.Shape
	Alphabet string
	Group    int // columns that share a scale; 0 = all of a row
	Count    int
}

// Body lists the linear layers that the plan packs in the layout of its recipe: all but the embedding, the output head,
// and layers for which rules of the recipe choose another layout. Of experts, only the number active per token counts.
func (p *Plan) Body() (list []Matrices) {
	for _, s := range p.steps {
		if s.entry == nil || s.entry.Layout.Name != p.Recipe.Layout || p.ofVocabulary(s.entry.Name) {
			continue
		}
		m := Matrices{s.entry.MatrixShape(), s.entry.Layout.Alphabet, s.entry.Scale.Group, 0}
		i := slices.IndexFunc(list, func(o Matrices) bool {
			return o.Shape == m.Shape && o.Alphabet == m.Alphabet && o.Group == m.Group
		})
		if i < 0 {
			i, list = len(list), append(list, m)
		}
		list[i].Count += p.perToken(s.entry.Experts())
	}
	return list
}

// ofVocabulary reports whether a tensor has a row per token of the vocabulary: embedding and forms of the head.
func (p *Plan) ofVocabulary(name string) bool {
	return p.model != nil && (name == p.model.Embed || name == p.model.Head) || name == packed.HeadName ||
		name == packed.ScreenName
}

// perToken returns how many matrices of an entry a token is multiplied by.
func (p *Plan) perToken(matrices int) int {
	if matrices == 1 || p.model == nil {
		return matrices
	}
	for i := range p.model.Blocks {
		if e := p.model.Blocks[i].Experts; e != nil {
			return e.Chosen
		}
	}
	return matrices
}

// FloatHead is the output head where the checkpoint has floats for it: shape and data type; ok is false elsewhere.
func (p *Plan) FloatHead() (shape pack.Shape, dtype string, ok bool) {
	if p.model == nil {
		return shape, "", false
	}
	t, found := p.source.Lookup(p.model.Head)
	if !found || len(t.Shape) != 2 || !isFloat(t.DType) {
		return shape, "", false
	}
	return pack.Shape{M: t.Shape[0], K: t.Shape[1]}, string(t.DType), true
}
