package export

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Arithmetic is how a graph computes quantized linear layers.
type Arithmetic string

const (
	// Exact quantizes activations in the graph as in NUMERICS N14, and adds integers without rounding: the sums equal
	// lowpack's, for any number of threads.
	Exact Arithmetic = "exact"
	// Plain leaves activations floats: only the weights are quantized.
	Plain Arithmetic = "plain"
)

// Arithmetics lists the kinds of arithmetic.
func Arithmetics() []string { return []string{string(Exact), string(Plain)} }

// Choose returns the requested arithmetic, or the one that all matrices allow, explained by details.
func Choose(m *packed.Manifest, asked Arithmetic) (a Arithmetic, t Told, err error) {
	return ChooseWhere(m, asked, FloatSums)
}

// ChooseWhere is Choose for a format that computes exactly if exact returns nil.
func ChooseWhere(m *packed.Manifest, asked Arithmetic, exact func(*packed.Entry,
	packed.Activation) error) (a Arithmetic, t Told, err error) {
	if i := slices.IndexFunc(m.Packed, func(e packed.Entry) bool { return e.Min }); i >= 0 {
		return "", t, fmt.Errorf("%w: tensor %q has minima beside its scales, which graphs do not have here; "+
			"convert its source with --quant int8, or export to gguf", pack.ErrUnsupported, m.Packed[i].Name)
	}
	quantized := false
	for i := range m.Packed {
		e := &m.Packed[i]
		if e.Name == packed.ScreenName {
			t.Detail(noScreen)
			continue
		}
		quantized = true
		if err = exact(e, m.Activation); err == nil || asked == Plain {
			continue
		}
		if asked == Exact {
			return "", t, fmt.Errorf("no exact arithmetic: %w; --arithmetic plain leaves activations floats", err)
		}
		t.Detail("activations stay floats (--arithmetic plain), so logits differ from those of lowpack: no exact "+
			"arithmetic: %v", err)
		return Plain, t, nil
	}
	if !quantized {
		return Plain, t, nil
	}
	return cmp.Or(asked, Exact), t, nil
}

// exactSums bounds sums of integers that float32 adds without rounding, in any order.
const exactSums = 1 << 24

// FloatSums reports why the sums of a matrix, with activation codes from −127 to 127, are not integers of one scale
// that float32 adds exactly; nil if they are.
func FloatSums(e *packed.Entry, a packed.Activation) error {
	alphabet, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return err
	}
	lo, hi := int(alphabet.Values[0]), int(alphabet.Values[len(alphabet.Values)-1])
	most := max(-lo, hi)
	if e.Zero {
		most = hi - lo
	}
	k := e.MatrixShape().K
	switch {
	case a.Kind != packed.ActivationToken:
		return fmt.Errorf("%w: activations with a scale for each group of columns", pack.ErrUnsupported)
	case e.Scale.Kind == packed.ScaleGroup:
		return fmt.Errorf("%w: tensor %q has a scale for each group of columns", pack.ErrUnsupported, e.Name)
	case int64(127*most)*int64(k) > exactSums:
		return fmt.Errorf("%w: tensor %q sums %d products of up to %d, and float32 adds integers exactly up to %d",
			pack.ErrUnsupported, e.Name, k, 127*most, int64(exactSums))
	}
	return nil
}
