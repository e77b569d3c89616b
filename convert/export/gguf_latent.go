package export

import (
	"context"
	"io"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/transpose"
)

// latent enters the matrices of keys and values of latent attention of all heads apart, those of keys transposed.
func (w *ggufWriter) latent(block string, kind gguf.Type, p *packed.Plain) {
	l, heads := w.model.Latent, w.model.Heads
	part := func(name string, shape []int, of func(head []byte, size int) []byte) {
		w.add(block+name+".weight", kind, append([]int{heads}, shape...), func(_ context.Context, to io.Writer) error {
			t, err := w.file.Tensor(p.Name)
			if err != nil {
				return err
			}
			n := len(t.Data) / heads
			for h := range heads {
				if _, err := to.Write(of(t.Data[h*n:][:n], quantize.DType(p.DType).Size())); err != nil {
					return err
				}
			}
			return nil
		})
	}
	part(hf.LatentKeys, []int{l.Rank, l.Nope}, func(head []byte, size int) []byte {
		return transpose.Bytes(head[:l.Nope*l.Rank*size], l.Nope, l.Rank)
	})
	part(hf.LatentValues, []int{l.Value, l.Rank}, func(head []byte, size int) []byte {
		return head[l.Nope*l.Rank*size:]
	})
}
