package quantized

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// sixKind is a float of 6 bits.
type sixKind struct {
	name   string
	values [64]float32
}

// The floats of 6 bits of MX (OCP Microscaling Formats 1.0): a sign, an exponent and a mantissa, without infinity and
// NaN.
var (
	e2m3 = sixKind{"F6_E2M3", sixValues(3, 1)}
	e3m2 = sixKind{"F6_E3M2", sixValues(2, 3)}
)

// sixValues returns the numbers of all 64 elements with so many bits of mantissa, and a bias of the exponent.
func sixValues(mantissa, bias int) (t [64]float32) {
	for i := range t {
		exponent, rest := i&31>>mantissa, math.Ldexp(float64(i&(1<<mantissa-1)), -mantissa)
		v := math.Ldexp(rest, 1-bias)
		if exponent > 0 {
			v = math.Ldexp(1+rest, exponent-bias)
		}
		if i >= 32 {
			v = math.Copysign(v, -1)
		}
		t[i] = float32(v)
	}
	return t
}

// sixes is a matrix of 6-bit floats, four in three bytes, the first in the lowest bits, with a power of two for each 32
// columns.
type sixes struct {
	kind             *sixKind
	elements, scales Tensor
	columns          int
}

// six describes a weight of 6-bit floats; of is its type.
func (p *parts) six(kind *sixKind, weight, scale string, of safetensors.DType) (*Values, error) {
	w, s := p.need(weight, 2, safetensors.U8), p.need(scale, 2, safetensors.U8, e8m0)
	x := &sixes{kind, w, s, s.Shape[1] * mxBlock}
	p.shape(w, s.Shape[0], x.columns/4*3)
	return p.values(Values{Name: p.module + ".weight", Elements: w.Name, Shape: []int{w.Shape[0], x.columns}, DType: of,
		Kind: kind.name, products: x.products})
}

// products computes rows of weights, from row on.
func (x *sixes) products(dst []float32, row int, read Read) error {
	stored, scales := make([]byte, len(dst)/4*3), make([]byte, len(dst)/mxBlock)
	if err := read(x.elements.Name, stored, int64(row*(x.columns/4*3))); err != nil {
		return err
	}
	if err := read(x.scales.Name, scales, int64(row*(x.columns/mxBlock))); err != nil {
		return err
	}
	for i := range scales {
		s := eightScale(safetensors.U8, scales, i)
		if s != s {
			return fmt.Errorf("%w: tensor %q: row %d: scale of group %d is NaN (255); the checkpoint is damaged: "+
				"download it again", pack.ErrCorrupt, x.scales.Name, row+i/(x.columns/mxBlock), i%(x.columns/mxBlock))
		}
		for at := i * mxBlock; at < (i+1)*mxBlock; at++ {
			b := stored[at/4*3:][:3]
			bits := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
			dst[at] = x.kind.values[bits>>(6*(at%4))&63] * s
		}
	}
	return nil
}
