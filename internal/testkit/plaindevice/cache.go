package plaindevice

import (
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/device"
)

// Rows of the KV cache (N27, N82): 32 bits of a word hold 2^format elements.

// magnitudes are those of N82.
var magnitudes = [...]int{6, 18, 30, 43, 57, 73, 93, 121}

// nearest is the code of N82 of a number.
func nearest(c int8) uint32 {
	best, sign, m := 0, uint32(0), int(c)
	if c < 0 {
		sign, m = 8, -m
	}
	for i, v := range magnitudes {
		if distance(v, m) < distance(magnitudes[best], m) {
			best = i
		}
	}
	return sign | uint32(best)
}

func distance(a, b int) int { return max(a-b, b-a) }

// codesOf stores the codes of x (N14) and their scale in a row.
func codesOf(to []uint32, x []float32, c device.CacheType) (ok bool) {
	q := make([]int8, len(x))
	d, ok := quantize(q, x)
	if !ok {
		d = float32(math.NaN())
	}
	for i, v := range q {
		code := uint32(uint8(v))
		if c == device.CacheI4 {
			code = nearest(v)
		}
		to[i>>c] |= code << (i % (1 << c) * (32 >> c))
	}
	to[len(to)-1] = math.Float32bits(d)
	return ok
}

// storeRow stores a key or value.
func storeRow(to []uint32, x []float32, c device.CacheType) (ok bool) {
	clear(to)
	switch c {
	case device.CacheF32:
		for i, v := range x {
			to[i] = math.Float32bits(v)
		}
		return true
	case device.CacheF16:
		for i, v := range x {
			to[i/2] |= uint32(float16.Narrow(v)) << (16 * (i % 2))
		}
		return true
	case device.CacheI4:
		tensor.Hadamard(x)
	}
	return codesOf(to, x, c)
}

// storeQuery stores a query.
func storeQuery(to []uint32, x []float32, c device.CacheType) (ok bool) {
	if c < device.CacheI8 {
		return storeRow(to, x, device.CacheF32)
	}
	if c == device.CacheI4 {
		tensor.InverseHadamard(x)
	}
	clear(to)
	return codesOf(to, x, device.CacheI8)
}

// loadRow returns the elements of a row, as they are or as codes with a scale.
func loadRow(from []uint32, dim int, c device.CacheType) (x []float32, d float32) {
	x = make([]float32, dim)
	for i := range x {
		word := from[i>>c] >> (i % (1 << c) * (32 >> c))
		switch c {
		case device.CacheF32:
			x[i] = math.Float32frombits(word)
		case device.CacheF16:
			x[i] = float16.Widen(uint16(word))
		case device.CacheI8:
			x[i] = float32(int8(word))
		default:
			x[i] = float32(magnitudes[word&7])
			if word&8 != 0 {
				x[i] = -x[i]
			}
		}
	}
	return x, math.Float32frombits(from[len(from)-1])
}

// score is the product of a query and a key, before it is scaled.
func score(q, key []uint32, dim int, c device.CacheType) float32 {
	k, d := loadRow(key, dim, c)
	if c < device.CacheI8 {
		x, _ := loadRow(q, dim, device.CacheF32)
		return dot(x, k)
	}
	x, own := loadRow(q, dim, device.CacheI8)
	acc := int32(0)
	for i := range x {
		acc += int32(x[i]) * int32(k[i])
	}
	return float32(float32(float32(acc)*d) * own)
}
