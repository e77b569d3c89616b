// The arithmetic of docs/NUMERICS.md. Compiled with -fmad=false -ftz=false -prec-div=true -prec-sqrt=true, so that an
// operator is one operation, rounded once; fmaf is the fused one (N1).
#pragma once
#include "ops.cuh"

__device__ __forceinline__ uint32_t bits(float x) { return __float_as_uint(x); }

// magnitude orders floats by size, NaN last (N7).
__device__ __forceinline__ uint32_t magnitude(float x) { return bits(x) & 0x7fffffff; }

__device__ __forceinline__ bool finite(float x) { return magnitude(x) < 0x7f800000; }

// least and most are min and max that keep NaN.
__device__ __forceinline__ float least(float x, float limit) { return x > limit ? limit : x; }
__device__ __forceinline__ float most(float x, float limit) { return x < limit ? limit : x; }

const float magic = 12582912; // N8

// exponential is N9.
__device__ __forceinline__ float exponential(float x) {
	if (x < -87) return 0;
	x = least(x, 88);
	float n = __fmaf_rn(x, 1.44269504f, magic) - magic;
	float r = __fmaf_rn(n, 2.12194440e-4f, __fmaf_rn(n, -0.693359375f, x));
	float p = __fmaf_rn(1.9875691500e-4f, r, 1.3981999507e-3f);
	p = __fmaf_rn(p, r, 8.3334519073e-3f);
	p = __fmaf_rn(p, r, 4.1665795894e-2f);
	p = __fmaf_rn(p, r, 1.6666665459e-1f);
	p = __fmaf_rn(p, r, 5.0000001201e-1f);
	p = __fmaf_rn(p, r, 1);
	p = __fmaf_rn(p, r, 1);
	return p * __uint_as_float((uint32_t)((int)n + 127) << 23);
}

// N10.
__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + exponential(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
__device__ __forceinline__ float tangent(float x) { return 1 - 2 / (exponential(2 * x) + 1); }
__device__ __forceinline__ float capped(float x, float cap) { return cap * tangent(x / cap); }

__device__ __forceinline__ float relu2(float x) {
	x = x <= 0 ? 0 : x;
	return x * x;
}

__device__ __forceinline__ float geluTanh(float x) {
	float half = 0.5f * x;
	return __fmaf_rn(half, tangent(0.797884561f * __fmaf_rn(0.044715f, x * x * x, x)), half);
}

// xielu is N42 with a and b as softplus made them.
__device__ __forceinline__ float xielu(float x, const float *p) {
	float curve = x > 0 ? p[0] * x * x : p[1] * (exponential(least(x, p[3])) - 1 - x);
	return curve + p[2] * x;
}

// clamped is N19, clamped_swiglu.
__device__ __forceinline__ float clamped(float gate, float up, const float *p) {
	gate = least(gate, p[1]);
	up = least(most(up, -p[1]), p[1]) + 1;
	return silu(gate * p[0]) * up / p[0];
}

enum { gateNone, gateSiLU, gateReLU2, gateGELUTanh, gateXIELU, gateClamped, gateSingle = 16 };

// gated is N19; for N41, up is 1.
__device__ __forceinline__ float gated(uint32_t kind, float gate, float up, const float *params) {
	switch (kind) {
	case gateSiLU: return silu(gate) * up;
	case gateReLU2: return relu2(gate) * up;
	case gateGELUTanh: return geluTanh(gate) * up;
	case gateXIELU: return xielu(gate, params) * up;
	default: return clamped(gate, up, params);
	}
}

// folded is the tree of N5 over the 16 lanes of a half of a warp; its lane 0 has the result.
__device__ __forceinline__ float folded(float lane) {
#pragma unroll
	for (int s = 8; s > 0; s /= 2) lane = lane + __shfl_down_sync(~0u, lane, s, 16);
	return lane;
}

// largest is the maximum of a block, in all threads. room has 32 words.
template <class T> __device__ __forceinline__ T largest(T x, T *room) {
#pragma unroll
	for (int s = 16; s > 0; s /= 2) x = max(x, __shfl_xor_sync(~0u, x, s));
	__syncthreads();
	if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
	__syncthreads();
	x = room[0];
	for (int i = 1; i < (int)blockDim.x / 32; i++) x = max(x, room[i]);
	return x;
}

// squares is a lane of the sum of the squares (N6). The next values are read while the last ones are added.
__device__ __forceinline__ float squares(const float *x, int n, int lane) {
	constexpr int batch = 16, all = 16 * batch;
	float s = 0, now[batch], next[batch];
	int i = lane;
	bool more = i + all - 16 < n;
#pragma unroll
	for (int j = 0; j < batch; j++) now[j] = more ? x[i + 16 * j] : 0;
	while (more) {
		i += all;
		more = i + all - 16 < n;
#pragma unroll
		for (int j = 0; j < batch; j++) next[j] = more ? x[i + 16 * j] : 0;
#pragma unroll
		for (int j = 0; j < batch; j++) s = __fmaf_rn(now[j], now[j], s);
#pragma unroll
		for (int j = 0; j < batch; j++) now[j] = next[j];
	}
	for (; i < n; i += 16) s = __fmaf_rn(x[i], x[i], s);
	return s;
}

enum { normNone, normRMS, normLayer };

// normalize is N13 or N40 of n values in shared memory, by a block; the weights and the bias follow in scale and shift.
// It returns false if the mean square is not finite (N4).
__device__ __forceinline__ bool center(float *x, int n, uint32_t norm, float eps, float *scale) {
	__shared__ float result[2];
	const int lane = threadIdx.x;
	if (norm == normLayer) {
		float s = 0;
		if (lane < 32) {
			if (lane < 16)
				for (int i = lane; i < n; i += 16) s = s + x[i];
			s = folded(s);
			if (lane == 0) result[0] = s / (float)n;
		}
		__syncthreads();
		for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] - result[0];
		__syncthreads();
	}
	if (lane < 32) {
		float s = 0;
		if (lane < 16) s = squares(x, n, lane);
		s = folded(s);
		if (lane == 0) {
			float mean = s / (float)n;
			result[0] = mean;
			result[1] = 1 / __fsqrt_rn(mean + eps);
		}
	}
	__syncthreads();
	*scale = result[1];
	return finite(result[0]);
}
