package reference

import (
	"context"

	"github.com/lowpack/lowpack/formats/model"
)

// Rotations that depend on the length of the text (N67): a text that reaches another length is computed once more, all
// of it. A sequence that has one of the later stages holds the text and its rotation.
type staged struct {
	ids   []int
	stage int
	rope  *rope // of blocks whose rotation changes; nil = that of the model
}

// forwardStaged is run for one chunk of a model with such rotations: what a token gets is of the stage of the text that
// ends with it.
func (m *Model) forwardStaged(ctx context.Context, last lastStep, c Chunk) (rows [][]float32, err error) {
	s, from := c.Seq, len(c.Seq.ids)
	s.ids = append(s.ids, c.Tokens...)
	for from < len(s.ids) {
		stage, to := m.d.Rope.Stage(from+1), from+1
		for to < len(s.ids) && m.d.Rope.Stage(to+1) == stage {
			to++
		}
		chunk := Chunk{s, s.ids[from:to]}
		if stage != s.stage {
			again := m.NewSequence()
			rope := newRope(m.d.Rope, false, stage)
			again.staged = staged{s.ids, stage, &rope}
			*s = *again
			chunk.Tokens = s.ids[:to]
		}
		z, err := m.forward(ctx, last, chunk)
		if err != nil {
			return nil, err
		}
		rows = append(rows, z[len(z)-(to-from):]...)
		from = to
	}
	return rows, nil
}

// stages reports whether the rotation of a block depends on the length of the text.
func stages(d *model.Description, b *model.Block) bool {
	return d.Rope.Staged() && !b.NoRope && (!b.Local || d.Rope.LocalTheta == 0)
}
