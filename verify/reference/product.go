package reference

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// Three activations share one 64-bit integer: q0 + q1·2²¹ + q2·2⁴². A product with a code multiplies all three at once,
// and sums stay apart as long as each lies within ±(2²⁰ − 1). Plain Go multiplies three times as fast this way,
// exactly.
const (
	fieldBits  = 21
	perWord    = 3
	fieldLimit = 1<<(fieldBits-1) - 1
)

// maxActivation is the largest magnitude of a quantized activation (N14).
const maxActivation = 127

// words packs quantized vectors, all of length k, three by three.
func words(q [][]int8) [][]int64 {
	out := make([][]int64, (len(q)+perWord-1)/perWord)
	for i := range out {
		out[i] = make([]int64, len(q[0]))
		for j, v := range q[i*perWord : min(len(q), (i+1)*perWord)] {
			for k, a := range v {
				out[i][k] += int64(a) << (j * fieldBits)
			}
		}
	}
	return out
}

// blockLength is the number of columns after which the fields must be emptied: every sum of that many products of a
// code and an activation fits a field.
func blockLength(maxCode int) int { return fieldLimit / (maxActivation * maxCode) }

// rowProducts sets acc[t] = Σ codes[k]·q[t][k], where x = words(q), len(acc) = len(q) and block = blockLength.
func rowProducts(acc []int32, codes []int8, x [][]int64, block int) {
	for i, w := range x {
		var sums [perWord]int64
		for from := 0; from < len(codes); from += block {
			to := min(from+block, len(codes))
			s := multiply(codes[from:to], w[from:to])
			for j := range sums {
				field := s << (64 - fieldBits) >> (64 - fieldBits) // sign-extended
				sums[j] += field
				s = (s - field) >> fieldBits
			}
		}
		for j := range min(perWord, len(acc)-i*perWord) {
			acc[i*perWord+j] = int32(sums[j])
		}
	}
}

// multiply is Σ codes[k]·w[k].
func multiply(codes []int8, w []int64) (sum int64) {
	w = w[:len(codes)]
	for len(codes) >= 4 {
		c, v := (*[4]int8)(codes), (*[4]int64)(w)
		sum += int64(c[0])*v[0] + int64(c[1])*v[1] + int64(c[2])*v[2] + int64(c[3])*v[3]
		codes, w = codes[4:], w[4:]
	}
	for k, c := range codes {
		sum += int64(c) * w[k]
	}
	return sum
}

// maxCode is the largest magnitude of an alphabet.
func maxCode(a pack.Alphabet) int {
	m := 0
	for _, v := range a.Values {
		m = max(m, int(v), -int(v))
	}
	return m
}

// checkExact refuses a matrix whose sums of products might not fit 32 bits.
func (m *matrix) checkExact() error {
	most, values := maxCode(m.alphabet), m.alphabet.Values
	for _, z := range m.zeros {
		most = max(most, int(values[len(values)-1])-int(z), int(z)-int(values[0]))
	}
	if int64(m.block)*maxActivation*int64(most) > math.MaxInt32 {
		return fmt.Errorf("%w: sums over %d columns of %s codes and int8 activations may exceed 32 bits", pack.ErrLimit,
			m.block, m.alphabet.Name)
	}
	return nil
}
