// Floats (N16): a half of a warp computes a row for some tokens, in the 16 lanes of N6.
#include "numerics.cuh"
#include <cuda_fp16.h>

namespace matrix {

const int threads = 256;

enum { f32, f16, bf16 };

// element widens element i.
template <int type> __device__ __forceinline__ float element(const void *w, size_t i) {
	if (type == f32) return __ldcs((const float *)w + i);
	uint16_t v = __ldcs((const uint16_t *)w + i);
	if (type == bf16) return __uint_as_float((uint32_t)v << 16);
	return __half2float(__ushort_as_half(v));
}

template <int type, int n> __device__ __forceinline__ void dots(const floats &p, int row, int first) {
	const int k = p.c.K, lane = threadIdx.x % 16;
	const size_t base = (size_t)min(row, (int)p.c.Rows - 1) * k;
	const float *x[n];
	float s[n] = {};
#pragma unroll
	for (int t = 0; t < n; t++) x[t] = p.x + (size_t)min(first + t, (int)p.c.N - 1) * k;
	int i = lane;
	for (; i + 15 * 16 < k; i += 16 * 16) {
		float w[16];
#pragma unroll
		for (int j = 0; j < 16; j++) w[j] = element<type>(p.w, base + i + 16 * j);
#pragma unroll
		for (int j = 0; j < 16; j++)
#pragma unroll
			for (int t = 0; t < n; t++) s[t] = __fmaf_rn(w[j], x[t][i + 16 * j], s[t]);
	}
	for (; i < k; i += 16) {
		const float w = element<type>(p.w, base + i);
#pragma unroll
		for (int t = 0; t < n; t++) s[t] = __fmaf_rn(w, x[t][i], s[t]);
	}
#pragma unroll
	for (int t = 0; t < n; t++) {
		const float y = folded(s[t]);
		if (lane == 0 && first + t < (int)p.c.N && row < (int)p.c.Rows) put(p, first + t, row, y);
	}
}

template <int n, class Place> __device__ __forceinline__ void run(const floats &p, Place &&at) {
	at.await();
	const int first = at.block.y * n, rows = p.c.Rows, even = (at.block.x * threads + threadIdx.x) / 32 * 2;
	if (even >= rows) return; // the lanes of a warp stay together
	const int row = even + threadIdx.x / 16 % 2; // may be one too many, which is not stored
	switch (p.c.Type) {
	case f32: dots<f32, n>(p, row, first); break;
	case f16: dots<f16, n>(p, row, first); break;
	default: dots<bf16, n>(p, row, first);
	}
}

} // namespace matrix

// Grid: (rows/16, tokens or tokens/4).
extern "C" __global__ void __launch_bounds__(256) step_floats_1(const __grid_constant__ floats p) {
	matrix::run<1>(p, alone());
}
extern "C" __global__ void __launch_bounds__(256) step_floats_4(const __grid_constant__ floats p) {
	matrix::run<4>(p, alone());
}
