package synth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
)

// cells is the number of equally likely values of a weight: 12 random bits choose one.
const cells = 4096

// stream is the randomness of one tensor with random access: block i, 64 bits, is a function of seed, name and i alone.
// Four weights, or eight bytes of codes, take one block.
type stream uint64

func newStream(seed uint64, tensor string) stream {
	sum := sha256.Sum256(fmt.Appendf(nil, "lowpack synth 1\n%d\n%s", seed, tensor))
	return stream(binary.LittleEndian.Uint64(sum[:]))
}

// block is splitmix64 (Steele, Lea and Flood, OOPSLA 2014) with its counter set to i.
func (s stream) block(i int64) uint64 {
	z := uint64(s) + uint64(i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// unit is a number in [0, 1) for per-row values.
func (s stream) unit(i int64) float64 { return float64(s.block(i)>>11) / (1 << 53) }

// shape is a symmetric distribution as the values of its cells, ascending.
type shape [cells]float64

// newShape tabulates the quantiles of a distribution of magnitudes. They are rounded to a grid far coarser than the
// errors of any math library, so that a table is the same everywhere.
func newShape(magnitude func(u float64) float64) *shape {
	const grid = 1 << 20
	var t shape
	for j := 0; j < cells/2; j++ {
		q := math.RoundToEven(magnitude((float64(j)+0.5)/(cells/2))*grid) / grid
		t[cells/2+j], t[cells/2-1-j] = q, -q
	}
	return &t
}

func normalMagnitude(u float64) float64 { return math.Sqrt2 * math.Erfinv(u) }

// trainedMagnitude is a Weibull distribution. Its exponent determines the share of weights below half of the mean
// magnitude, the zeros of an absmean quantizer: 31 % for a normal distribution; trained ternary models report 30 to 42
// %.
func trainedMagnitude(exponent float64) func(float64) float64 {
	return func(u float64) float64 { return math.Pow(-math.Log1p(-u), exponent) }
}

// rms is the root mean square of a distribution.
func (t *shape) rms() float64 {
	sum := 0.0
	for _, v := range t {
		sum += float64(v * v)
	}
	return math.Sqrt(sum / cells)
}

// zeros is the share of cells that an absmean quantizer maps to zero.
func (t *shape) zeros() float64 {
	mean, n := 0.0, 0
	for _, v := range t {
		mean += math.Abs(v) / cells
	}
	for _, v := range t {
		if math.Abs(v) < mean/2 {
			n++
		}
	}
	return float64(n) / cells
}
