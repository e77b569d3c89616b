package convert

import (
	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/packed"
)

// factorDecoder imports the codes of a matrix in GGUF blocks, with scales and minima as the GGUF has them: a float16
// for each block, and an integer for each group of columns (FORMAT F9).
type factorDecoder struct {
	*blocks
	scale        packed.Scale
	size         int    // bytes of the scales of a row
	first, added []byte // scales and minima of all rows
}

func newFactorDecoder(b *blocks, scale packed.Scale) *factorDecoder {
	size := b.shape.K / packed.FactorColumns * (2 + packed.FactorColumns/scale.Group)
	d := &factorDecoder{blocks: b, scale: scale, size: size, first: make([]byte, b.shape.M*size)}
	if b.minima {
		d.added = make([]byte, len(d.first))
	}
	return d
}

func (d *factorDecoder) Decode(codes []int8, row int, stored []byte) error {
	if err := d.each(codes, row, stored, func(int, []int8, []group) {}); err != nil {
		return err
	}
	for width := d.Stored.Shape[1]; len(stored) > 0; row, stored = row+1, stored[width:] {
		if err := d.factors(row, stored[:width]); err != nil {
			return err
		}
	}
	return nil
}

// factors takes the factors of a row over.
func (d *factorDecoder) factors(row int, stored []byte) (err error) {
	first, added := d.first[row*d.size:][:0], []byte(nil)
	if d.minima {
		added = d.added[row*d.size:][:0]
	}
	take := func(dst []byte, half float32, integers []int8) []byte {
		if err == nil {
			dst, err = d.scale.AppendFactors(dst, half, integers)
		}
		return dst
	}
	rowErr := d.Type.EachFactors(stored, func(scale float32, scales []int8, minimum float32, minima []int8) {
		first = take(first, scale, scales)
		if d.minima {
			added = take(added, minimum, minima)
		}
	})
	if rowErr != nil {
		return rowErr
	}
	return err
}

func (d *factorDecoder) Finish() ([]pipeline.Blob, error) {
	blobs := []pipeline.Blob{{Suffix: packed.ScaleSuffix, Data: d.first}}
	if d.minima {
		blobs = append(blobs, pipeline.Blob{Suffix: packed.MinSuffix, Data: d.added})
	}
	return blobs, nil
}

func (d *factorDecoder) scales() []float32 { return d.scale.Widened(d.first) }

func (*factorDecoder) relError() *float64 { return nil }
