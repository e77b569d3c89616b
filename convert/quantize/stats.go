package quantize

import "math"

// Stats measure how well codes and scales approximate the weights.
type Stats struct {
	RelError float64 // ‖W − Ŵ‖ / ‖W‖; 0 when both are zero
	Counts   []int64 // per value of the alphabet, in its order
	Zeros    int64   // weights that are zero; counted for alphabets without zero only
}

// rowError is the part of one row.
type rowError struct{ square, miss float64 }

// collect adds part of a row: the weights of one scale.
func (q *Quantizer) collect(row int, codes []int8, src []byte, scale float32) {
	d := q.job.DType
	e := measureError(codes, d, src, scale)
	q.errors[row].square += e.square
	q.errors[row].miss += e.miss

	var counts [256]int64
	for _, c := range codes {
		counts[uint8(c)]++
	}
	zeros := int64(0)
	if !q.hasZero {
		zeros = countZeros(d, src)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range q.rule.Alphabet.Values {
		q.counts[uint8(v)] += counts[uint8(v)]
	}
	q.zeros += zeros
}

func measureError(codes []int8, d DType, src []byte, scale float32) rowError {
	var s errorSums
	n := whole(len(codes))
	missBlocks(&s, codes[:n], d, src[:n*d.Size()], scale)
	missGo(&s, codes[n:], d, src[n*d.Size():], scale)
	return rowError{join(&s.square), join(&s.miss)}
}

// countZeros counts ±0.
func countZeros(d DType, src []byte) (n int64) {
	var w [1]float32
	for ; len(src) > 0; src = src[d.Size():] {
		if d.Widen(w[:], src); w[0] == 0 {
			n++
		}
	}
	return n
}

// Stats of all rows quantized so far, if the job asks for them.
func (q *Quantizer) Stats() Stats {
	s := Stats{Zeros: q.zeros}
	for _, v := range q.rule.Alphabet.Values {
		s.Counts = append(s.Counts, q.counts[uint8(v)])
	}
	var sum rowError
	for _, e := range q.errors {
		sum.square += e.square
		sum.miss += e.miss
	}
	if sum.square > 0 {
		s.RelError = math.Sqrt(sum.miss / sum.square)
	}
	return s
}
