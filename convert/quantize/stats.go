package quantize

import "math"

// Stats say how well codes and scales stand for the weights.
type Stats struct {
	RelError float64 // ‖W − Ŵ‖ / ‖W‖; 0 when both are zero
	Counts   []int64 // per value of the alphabet, in its order
	Zeros    int64   // weights that are zero
}

// collect adds a quantized row.
func (q *Quantizer) collect(m int, codes []int8, src []byte) {
	var square, miss [lanes]float64
	var counts [256]int64
	zeros := int64(0)
	var w [1]float32
	for k, c := range codes {
		q.job.DType.Widen(w[:], src[k*q.job.DType.Size():])
		v := float64(w[0])
		e := v - float64(float64(c)*float64(q.scale(m, k)))
		square[k%lanes] += float64(v * v)
		miss[k%lanes] += float64(e * e)
		counts[uint8(c)]++
		if v == 0 {
			zeros++
		}
	}
	q.squares[m], q.errors[m] = joinLanes(&square), joinLanes(&miss)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, n := range counts {
		q.counts[i] += n
	}
	q.zeros += zeros
}

// scale of the weight in row m, column k.
func (q *Quantizer) scale(m, k int) float32 {
	switch q.job.Kind {
	case PerTensor:
		return q.scales[0]
	case PerRow:
		return q.scales[m]
	}
	return q.scales[m*q.groups()+k/q.job.Group]
}

// Stats of all rows quantized so far, if the job asks for them.
func (q *Quantizer) Stats() Stats {
	s := Stats{Zeros: q.zeros}
	for _, v := range q.rule.Alphabet.Values {
		s.Counts = append(s.Counts, q.counts[uint8(v)])
	}
	square, miss := 0.0, 0.0
	for m := range q.squares {
		square += q.squares[m]
		miss += q.errors[m]
	}
	if square > 0 {
		s.RelError = math.Sqrt(miss / square)
	}
	return s
}
