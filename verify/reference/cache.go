package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/half"
)

// Formats of the KV cache (N27). Golden outputs use F32.
const (
	CacheF32 = "f32"
	CacheF16 = "f16"
	CacheI8  = "i8"
)

// WithCache returns the model with another format of its cache.
func (m *Model) WithCache(format string) (*Model, error) {
	if format != CacheF32 && format != CacheF16 && format != CacheI8 {
		return nil, fmt.Errorf("%w: cache format %q", pack.ErrUnsupported, format)
	}
	other := *m
	other.cache = format
	return &other, nil
}

// stored is the key, value or query of a head at one position: floats, or codes and their scale.
type stored struct {
	x     []float32
	q     []int8 // nil: floats
	scale float32
}

// store converts the heads of a key or value to the format of the cache. It reports whether all of x is finite where
// that matters (N4).
func store(format string, x []float32, headDim int) (heads []stored, ok bool) {
	for i := 0; i < len(x); i += headDim {
		s := stored{x: x[i : i+headDim]}
		switch format {
		case CacheF16:
			for j, v := range s.x {
				s.x[j] = half.Round(v)
			}
		case CacheI8:
			if s.q, s.scale, ok = quantize(s.x); !ok {
				return nil, false
			}
		}
		heads = append(heads, s)
	}
	return heads, true
}

// score is the product of a query and a key.
func score(q, k *stored) float32 {
	if q.q == nil {
		return dot(q.x, k.x)
	}
	var acc int32
	for i, c := range q.q {
		acc += int32(c) * int32(k.q[i])
	}
	return float32(float32(float32(acc)*k.scale) * q.scale)
}

// addTo adds e times a value to o.
func (v *stored) addTo(o []float32, e float32) {
	if v.q == nil {
		for i, x := range v.x {
			o[i] = fma(e, x, o[i])
		}
		return
	}
	w := float32(e * v.scale)
	for i, c := range v.q {
		o[i] = fma(w, float32(c), o[i])
	}
}
