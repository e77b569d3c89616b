package export

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/packed"
)

// Bounds tells how far a graph is from the packed file, with bounds that hold for every input: how weights with minima
// differ, and how far an activation code reaches that is rounded the other way. What it calls exact are sums of
// integers, never logits.
func (t *Told) Bounds(f *packed.File, a Arithmetic) error {
	minima, largest, where := 0, 0.0, ""
	m := f.Manifest()
	for i := range m.Packed {
		e := &m.Packed[i]
		if e.Name == packed.ScreenName {
			continue
		}
		if e.Min {
			minima++
		}
		if a != Exact {
			continue
		}
		w, err := largestWeight(f, e)
		if err != nil {
			return err
		}
		if w > largest {
			largest, where = w, e.Name
		}
	}
	if minima > 0 {
		t.Detail("minima of %d tensors are numbers of their own in the graph: codes, scales and minima are those of "+
			"the packed file, and the weight code·scale + minimum is within 2⁻²³·(|code·scale| + |minimum|) of the "+
			"float of lowpack unpack, which is rounded twice", minima)
	}
	if a == Exact {
		t.Detail("exact are the sums of integers, not the logits: norms and softmax add floats in another order than "+
			"lowpack, which may round an activation code the other way; each step of a code changes an output by up "+
			"to %s / 127 · %.3g, the largest weight (tensor %q)", scaleUnit(m.Activation), roundedUp(largest), where)
	}
	return nil
}

// roundedUp is x with three digits, and at least x: a bound.
func roundedUp(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return math.Ceil(x/unit) * unit
}

// scaleUnit names what an activation scale is 1/127 of (NUMERICS N14).
func scaleUnit(a packed.Activation) string {
	if a.Kind == packed.ActivationGroup {
		return fmt.Sprintf("the largest activation of %d columns (at least 1e-5)", a.Size)
	}
	return "the largest activation of a token (at least 1e-5)"
}

// largestWeight bounds the magnitudes of the weights of a tensor by its scales, zero points and minima and by the range
// of its codes.
func largestWeight(f *packed.File, e *packed.Entry) (largest float64, err error) {
	lo, hi, err := codeRange(e)
	if err != nil {
		return 0, err
	}
	scales, err := packed.Scales(f, e)
	if err != nil {
		return 0, err
	}
	zeros, err := packed.Zeros(f, e)
	if err != nil {
		return 0, err
	}
	minima, err := packed.Minima(f, e)
	if err != nil {
		return 0, err
	}
	for i, s := range scales {
		zero, minimum := 0.0, 0.0
		if zeros != nil {
			zero = float64(zeros[i])
		}
		if minima != nil {
			minimum = float64(minima[i])
		}
		for _, code := range []int{lo, hi} {
			largest = max(largest, math.Abs((float64(code)-zero)*float64(s)+minimum))
		}
	}
	return largest, nil
}
