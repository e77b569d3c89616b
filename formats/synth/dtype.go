package synth

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// dtypes that a config.json may name for its weights.
var dtypes = map[string]safetensors.DType{
	"bfloat16": safetensors.BF16, "float16": safetensors.F16, "float32": safetensors.F32,
}

func dtypeOf(name string) (safetensors.DType, error) {
	if name == "" {
		return safetensors.BF16, nil
	}
	d, ok := dtypes[name]
	if !ok {
		return "", fmt.Errorf("config.json: %w: torch_dtype %q; supported are bfloat16, float16 and float32",
			pack.ErrUnsupported, name)
	}
	return d, nil
}

// bits rounds x to a dtype, half to even, and returns its bit pattern.
func bits(d safetensors.DType, x float64) uint32 {
	switch d {
	case safetensors.BF16:
		return small(x, 8, 7)
	case safetensors.F16:
		return small(x, 5, 10)
	}
	return math.Float32bits(float32(x))
}

// small rounds x once to a 16-bit binary float with the given widths. Beyond the largest number it returns infinity,
// which no scale of this package comes near.
func small(x float64, exponent, mantissa int) uint32 {
	bias := 1<<(exponent-1) - 1
	sign := uint32(math.Float64bits(x)>>63) << 15
	x = math.Abs(x)
	if x == 0 {
		return sign
	}
	_, e := math.Frexp(x) // x = f·2^e with f in [0.5, 1)
	e = max(e-1, 1-bias)  // below the smallest normal number the step is constant
	n := uint32(math.RoundToEven(math.Ldexp(x, mantissa-e)))
	// A carry out of the mantissa, and the step from subnormal to normal, result from the addition.
	return sign | uint32(e+bias-1)<<mantissa + n
}
