package convert

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/pack"
)

// importCodes takes over packed U8 codes. A byte holds rows r, r+R, r+2R and r+3R, so no panel is complete before the last
// block is read: all codes come first.
func (r *run) importCodes(ctx context.Context, s *step, t *tensorPacker) error {
	stored := pack.Shape{M: (t.matrix.M + 3) / 4, K: t.matrix.K}
	in := newReader(r.read, s.from, newBlocks(stored, 1), r.o.Jobs)
	err := parallel(ctx, in.workers(), in.blocks.count(), func(worker, i int) error {
		return in.block(worker, i, func(row int, data []byte) error {
			return unpackU8(t.matrix, row, data)
		})
	})
	if err != nil {
		return err
	}
	return t.finish(ctx, r.o.Jobs, nil)
}

// unpackU8 puts the codes of some rows of the stored tensor, from row on, in their four places.
func unpackU8(m *pack.Matrix, row int, data []byte) error {
	stored, n := (m.M+3)/4, len(data)/m.K
	part := pack.Shape{M: 4 * n, K: m.K} // the same bytes as a small tensor of its own: field j holds its rows jn … jn+n−1
	for j := range 4 {
		from := j*stored + row
		rows := max(0, min(n, m.M-from))
		if rows > 0 {
			if err := quantize.UnpackU8(m.Codes[from*m.K:][:rows*m.K], part, data, j*n, j*n+rows); err != nil {
				return fmt.Errorf("rows %d to %d: %w", from, from+rows-1, err)
			}
		}
		for k, b := range data[rows*m.K:] {
			if b>>(2*j)&3 != 0 {
				return fmt.Errorf("%w: row %d of the matrix does not exist, but column %d holds a code for it", pack.ErrCorrupt, from+rows+k/m.K, k%m.K)
			}
		}
	}
	return nil
}
