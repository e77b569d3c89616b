package reference

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/half"
)

// Formats of the KV cache (N27, N82). Golden outputs use F32.
const (
	CacheF32 = "f32"
	CacheF16 = "f16"
	CacheI8  = "i8"
	CacheI4  = "i4"
)

// WithCache returns the model with another format of its cache.
func (m *Model) WithCache(format string) (*Model, error) {
	if !slices.Contains([]string{CacheF32, CacheF16, CacheI8, CacheI4}, format) {
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
		case CacheI4:
			hadamard(s.x)
			if s.q, s.scale, ok = quantize(s.x); !ok {
				return nil, false
			}
			for j, c := range s.q {
				s.q[j] = nearest(c)
			}
		}
		heads = append(heads, s)
	}
	return heads, true
}

// nearest is the value of a code of i4 that is the nearest to c, of two the smaller magnitude, and 6 for 0 (N82).
func nearest(c int8) int8 {
	best := int8(6)
	for _, v := range []int8{-6, 18, -18, 30, -30, 43, -43, 57, -57, 73, -73, 93, -93, 121, -121} {
		if far(c, v) < far(c, best) {
			best = v
		}
	}
	return best
}

func far(a, b int8) int { return max(int(a)-int(b), int(b)-int(a)) }

// hadamard transforms blocks of x in place, each the largest power of two that divides its length (N82).
func hadamard(x []float32) (block int) {
	block = 1
	for len(x)%(2*block) == 0 {
		block *= 2
	}
	for s := 1; s < block; s *= 2 {
		for i := range x {
			if i&s == 0 {
				a, b := x[i], x[i+s]
				x[i], x[i+s] = a+b, a-b
			}
		}
	}
	return block
}

// unhadamard is its inverse.
func unhadamard(x []float32) {
	part := 1 / float32(hadamard(x))
	for i := range x {
		x[i] = float32(x[i] * part)
	}
}

// queryOf converts a query to what the format of the cache multiplies keys by.
func queryOf(format string, x []float32) (q stored, ok bool) {
	q, ok = stored{x: x}, true
	switch format {
	case CacheI4:
		q.x = slices.Clone(x)
		unhadamard(q.x)
		fallthrough
	case CacheI8:
		q.q, q.scale, ok = quantize(q.x)
	}
	return q, ok
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
