package quantize

// codes quantizes weights that share a scale, by the definition: one call of the rule per weight.
func (q *Quantizer) codes(dst []int8, src []byte, u unit) {
	var w [64]float32
	size := q.job.DType.Size()
	for k := 0; k < len(dst); k += len(w) {
		n := min(len(w), len(dst)-k)
		q.job.DType.Widen(w[:n], src[k*size:])
		for i, x := range w[:n] {
			dst[k+i] = q.rule.code(x, u.a)
		}
	}
}
