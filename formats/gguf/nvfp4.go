package gguf

import "github.com/lowpack/lowpack/internal/float8"

// decodeNVFP4 decodes a row of blocks of 64 columns: four scales, then the nibbles of 16 columns for each, those of the
// first eight low. Codes are twice the elements, so scales are halved, which is exact.
func decodeNVFP4(codes []int8, scales []float32, row []byte) {
	for g := range scales {
		b := row[g/4*36:]
		scales[g] = e4m3(b[g%4]) / 2
		for j, v := range b[4+g%4*8:][:8] {
			codes[16*g+j], codes[16*g+8+j] = e2m1[v&15], e2m1[v>>4]
		}
	}
}

// e4m3 returns a scale of NVFP4. ggml (ggml_ue4m3_to_fp32) reads NaN as 0 and ignores the sign; both are NaN here, as
// no quantizer writes them.
func e4m3(b byte) float32 {
	return float8.E4M3[min(b, 0x7f)]
}
