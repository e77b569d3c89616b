package reference

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// knownActivation reports whether the MLPs of a model have an activation, XIELU with its parameters in every block.
func knownActivation(d *model.Description) bool {
	if d.Activation != model.XIELU {
		return activations[d.Activation] != nil
	}
	for i := range d.Blocks {
		if d.Blocks[i].ActParams == nil {
			return false
		}
	}
	return true
}

// xielu is N42.
type xielu struct{ a, b, beta, eps float32 }

func openXIELU(v packed.View, p *model.ActParams) (func(gate, up float32) float32, error) {
	var value [4]float32
	for i, name := range []string{p.AlphaP, p.AlphaN, p.Beta, p.Eps} {
		var shape []int
		if i < 2 {
			shape = []int{1}
		}
		f, err := openFloats(v, name, shape...)
		if err != nil {
			return nil, err
		}
		f.row(value[i:i+1], 0)
	}
	x := xielu{a: softplus(value[0]), b: value[2] + softplus(value[1]), beta: value[2], eps: value[3]}
	return x.gate, nil
}

func (p *xielu) gate(x, up float32) float32 {
	curve := float32(p.b * (exp(min(x, p.eps)) - 1 - x))
	if x > 0 {
		curve = float32(float32(p.a*x) * x)
	}
	return float32((curve + float32(p.beta*x)) * up)
}

// softplus is that of N42.
func softplus(x float32) float32 { return float32(ln(1 + expWide(max(-700, min(700, float64(x)))))) }
