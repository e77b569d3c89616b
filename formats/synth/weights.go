package synth

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/lowpack/lowpack/pack"
)

// Weights is the kind of weights of the linear layers of a synthetic checkpoint.
type Weights string

// The kinds. Those after AbsMean are floats as models trained with quantization store them.
const (
	ByConfig      Weights = ""               // Codes, AbsMean or Normal, as declared by config.json
	Normal        Weights = "normal"         // full precision
	AbsMean       Weights = "absmean"        // master weights whose absmean codes have a trained model's share of zeros
	Codes         Weights = "packed"         // U8, four ternary codes to a byte, with weight_scale
	MXFP4         Weights = "mxfp4"          // E2M1 elements of experts, and floats
	GPTQ          Weights = "gptq"           // 4-bit, one scale per 128 columns
	Ternary       Weights = "ternary"        // −s, 0, +s, one s per tensor
	TernaryShards Weights = "ternary-shards" // one s per quarter of the rows, as after tensor-parallel training
	Groups1       Weights = "groups-1"       // ±α, one α per 128 columns, including embedding and head
	Levels1       Weights = "levels-1"       // ±α, one α per row
	Levels158     Weights = "levels-1.58"    // 0, ±⅔α
	Levels2       Weights = "levels-2"       // ±¼α, ±¾α
	Levels3       Weights = "levels-3"       // −4α … 3α
	Levels4       Weights = "levels-4"       // −8α … 7α
)

// Kinds lists the Weights that are floats.
func Kinds() []string {
	var names []string
	for _, w := range []Weights{
		Normal, AbsMean, Ternary, TernaryShards, Groups1, Levels1, Levels158, Levels2, Levels3, Levels4,
	} {
		names = append(names, string(w))
	}
	return names
}

func (w Weights) check() error {
	if w == ByConfig || w == Codes || w == MXFP4 || w == GPTQ {
		return nil
	}
	for _, k := range Kinds() {
		if k == string(w) {
			return nil
		}
	}
	return fmt.Errorf("%w: weights %q; there are %s", pack.ErrUnsupported, w, strings.Join(Kinds(), ", "))
}

var normal = sync.OnceValue(func() *shape { return newShape(normalMagnitude) })

// trained finds the Weibull exponent that gives the given share of zeros, by bisection: the share grows with it.
func trained(zeros float64) *shape {
	lo, hi := 0.3, 3.0
	for range 30 {
		mid := (lo + hi) / 2
		if newShape(trainedMagnitude(mid)).zeros() < zeros {
			lo = mid
		} else {
			hi = mid
		}
	}
	return newShape(trainedMagnitude(hi))
}

// quantized describes the levels of a kind: their values in units of the scale, the level of each cell, the number of
// scales of a tensor with m rows, and their spread.
func (w Weights) quantized(zeros float64, m int) (f levels, ok bool) {
	perRow := levels{rows: 1, spread: 0.25}
	switch w {
	case Ternary, TernaryShards:
		f = levels{rows: int64(m), levels: []float64{-1, 0, 1}}
		if w == TernaryShards {
			f.rows, f.spread = int64(m+3)/4, 0.25
		}
		f.split(zeros)
	case Levels1, Groups1:
		f = perRow
		f.levels = []float64{-1, 1}
		f.step(2)
	case Levels158:
		f = perRow
		f.levels = []float64{-2. / 3, 0, 2. / 3}
		f.split(zeros)
	case Levels2:
		f = perRow
		f.levels = []float64{-0.75, -0.25, 0.25, 0.75}
		f.step(1)
	case Levels3:
		f = perRow
		f.levels = []float64{-4, -3, -2, -1, 0, 1, 2, 3}
		f.step(0.6)
	case Levels4:
		f = perRow
		f.levels = []float64{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
		f.step(0.3)
	default:
		return f, false
	}
	return f, true
}

// split sets the share of the middle one of three levels.
func (f *levels) split(zeros float64) {
	outer := int(math.RoundToEven((1 - zeros) / 2 * cells))
	for i := range f.pick {
		f.pick[i] = 1
		if i < outer {
			f.pick[i] = 0
		} else if i >= cells-outer {
			f.pick[i] = 2
		}
	}
}

// step divides a normal distribution into levels that are step standard deviations apart; the outermost include the
// tails.
func (f *levels) step(step float64) {
	n := len(f.levels)
	for i, z := range normal() {
		f.pick[i] = uint8(min(max(int(math.Floor(z/step))+n/2, 0), n-1))
	}
}

// rms is the root mean square of the levels in units of the scale.
func (f *levels) rms() float64 {
	sum := 0.0
	for _, p := range f.pick {
		sum += float64(f.levels[p] * f.levels[p])
	}
	return math.Sqrt(sum / cells)
}
