package export

import (
	"maps"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/gguf"
)

// xielu writes the parameters of activations, which a GGUF has among its keys: a number for each block.
func (w *ggufWriter) xielu() error {
	numbers := map[string][]float32{}
	for i := range w.model.Blocks {
		p := w.model.Blocks[i].ActParams
		if p == nil {
			return nil
		}
		for key, name := range map[string]string{"xielu.alpha_p": p.AlphaP, "xielu.alpha_n": p.AlphaN,
			"xielu.beta": p.Beta, "xielu.eps": p.Eps} {
			t, err := w.file.Tensor(name)
			if err != nil {
				return err
			}
			one := make([]float32, 1)
			quantize.DType(t.DType).Widen(one, t.Data)
			numbers[key], w.done[name] = append(numbers[key], one[0]), true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		w.key(key, gguf.FloatsValue(numbers[key]))
	}
	return nil
}
