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
func Choose(v packed.View, asked Arithmetic) (a Arithmetic, t Told, err error) {
	return ChooseWhere(v.Manifest(), asked, func(e *packed.Entry, a packed.Activation) error {
		return FloatSums(v, e, a)
	})
}

// ChooseWhere is Choose for a format that computes exactly if exact returns nil.
func ChooseWhere(m *packed.Manifest, asked Arithmetic, exact func(*packed.Entry,
	packed.Activation) error) (a Arithmetic, t Told, err error) {
	quantized := false
	for i := range m.Packed {
		e := &m.Packed[i]
		if e.Name == packed.ScreenName {
			t.Detail(noScreen)
			continue
		}
		quantized = true
		if err = narrow(m.Activation); err == nil {
			err = exact(e, m.Activation)
		}
		if err == nil || asked == Plain {
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

// narrow refuses activations whose codes are no bytes.
func narrow(a packed.Activation) error {
	if a.Planes() > 1 {
		return fmt.Errorf("%w: activations of %d bits", pack.ErrUnsupported, a.Bits())
	}
	return nil
}

// exactSums bounds sums of integers that float32 adds without rounding, in any order.
const exactSums = 1 << 24

// FloatSums reports why the sums of a matrix, with activation codes from −127 to 127, are not integers of one scale
// that float32 adds exactly; nil if they are. Zero points, which v has, may lie outside of the codes.
func FloatSums(v packed.View, e *packed.Entry, a packed.Activation) error {
	switch {
	case a.Kind != packed.ActivationToken:
		return fmt.Errorf("%w: activations with a scale for each group of columns", pack.ErrUnsupported)
	case e.Scale.Kind == packed.ScaleGroup:
		return fmt.Errorf("%w: tensor %q has a scale for each group of columns", pack.ErrUnsupported, e.Name)
	}
	lo, hi, err := codeRange(e)
	if err != nil {
		return err
	}
	most, k := max(-lo, hi), e.MatrixShape().K
	zeros, err := packed.Zeros(v, e)
	if err != nil {
		return err
	}
	if zeros != nil {
		most = max(hi-int(slices.Min(zeros)), int(slices.Max(zeros))-lo)
	}
	if int64(127*most)*int64(k) > exactSums {
		return fmt.Errorf("%w: tensor %q sums %d products of up to %d, and float32 adds integers exactly up to %d",
			pack.ErrUnsupported, e.Name, k, 127*most, int64(exactSums))
	}
	return nil
}

// codeRange is the least and the largest code of a tensor's alphabet.
func codeRange(e *packed.Entry) (lo, hi int, err error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return 0, 0, err
	}
	return int(a.Values[0]), int(a.Values[len(a.Values)-1]), nil
}
