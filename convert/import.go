package convert

import (
	"context"

	"github.com/lowpack/lowpack/convert/quantize"
)

// importCodes takes over packed U8 codes. A byte holds rows that lie a quarter of the matrix apart, so the stored tensor is
// read first, a quarter of a byte per weight; after that its rows come in order.
func (r *run) importCodes(ctx context.Context, s *step, t *tensorPacker) error {
	const piece = 1 << 20
	pieces := (len(t.stored) + piece - 1) / piece
	err := parallel(ctx, r.o.Jobs, pieces, func(_, i int) error {
		return r.cores.run(ctx, func() error {
			from, to := i*piece, min((i+1)*piece, len(t.stored))
			return r.read(s.from, t.stored[from:to], int64(from))
		})
	})
	if err != nil {
		return err
	}
	return t.finish(ctx, func(_ *slot, codes []int8, _, from int) error {
		err := quantize.UnpackU8(codes, t.matrix.Shape, t.stored, from, from+len(codes)/t.matrix.K)
		if err != nil {
			return inTensor(s.from, err)
		}
		return nil
	})
}
