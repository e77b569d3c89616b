package reference

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// embedding gives the row of a token: floats, or quantized weights (section 5).
type embedding struct {
	float *floats // one of the two
	ints  *matrix
}

func openEmbedding(v packed.View, d *model.Description) (e embedding, err error) {
	if _, quantized := v.Manifest().Entry(d.Embed); !quantized {
		e.float, err = openFloats(v, d.Embed, d.Vocab, d.Hidden)
		return e, err
	}
	if e.ints, err = openMatrix(v, d.Embed, 0); err != nil {
		return e, err
	}
	if e.ints.Shape != (pack.Shape{M: d.Vocab, K: d.Hidden}) || e.ints.order != nil {
		return e, fmt.Errorf("%w: tensor %q has shape %v; the model needs [%d, %d] and no order (F10)", pack.ErrCorrupt,
			d.Embed, e.ints.Shape, d.Vocab, d.Hidden)
	}
	return e, nil
}

func (e *embedding) row(ctx context.Context, dst []float32, token int) error {
	if e.ints != nil {
		return e.ints.weights(ctx, dst, token)
	}
	e.float.row(dst, token)
	return nil
}
