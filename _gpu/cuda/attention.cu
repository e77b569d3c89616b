// Attention (N18): Scores, and Attend.
#include "numerics.cuh"

namespace attention {

const int threads = 256;

// cached is the place of a row of a head in the KV cache.
template <class P> __device__ __forceinline__ size_t cached(const P &p, const uint32_t *pages, uint32_t at,
	uint32_t head) {
	return (((size_t)pages[at / p.c.PageRows] * p.c.KVHeads + head) * p.c.PageRows + at % p.c.PageRows) * p.c.Dim;
}

// A half of a warp computes the scores of a position: 16 lanes (N6). The query heads of a key head come one after
// another.
template <class Place> __device__ __forceinline__ void run(const scores &p, Place &&at) {
	extern __shared__ float queries[]; // [heads of a key head][Dim]
	at.await();
	const int head = at.block.y, t = at.block.z, dim = p.c.Dim, share = p.c.Heads / p.c.KVHeads,
		lane = threadIdx.x % 16;
	const Token token = p.tokens[t];
	const uint32_t from = p.c.Local ? token.From : 0, *pages = p.pages + token.Pages;
	if (from + at.block.x * (threads / 16) > token.Position) return;
	const float *q = p.q + ((size_t)t * p.c.Heads + head * share) * dim;
	for (int i = threadIdx.x; i < share * dim; i += threads) queries[i] = q[i];
	__syncthreads();
	float *z = p.z + ((size_t)t * p.c.Heads + head * share) * p.c.Span;
	const uint32_t warp = (threadIdx.x / 32) * 2, half = threadIdx.x / 16 % 2;
	for (uint32_t base = from + at.block.x * (threads / 16) + warp; base <= token.Position;
		base += at.grid.x * (threads / 16)) {
		const uint32_t j = base + half;
		const bool inside = j <= token.Position;
		const float *key = p.keys + cached(p, pages, inside ? j : base, head);
		for (int h = 0; h < share; h++) {
			const float *own = queries + h * dim;
			float s = 0;
#pragma unroll 8
			for (int i = lane; i < dim; i += 16) s = __fmaf_rn(own[i], key[i], s);
			s = folded(s) * p.c.Scale;
			if (p.c.Cap != 0) s = capped(s, p.c.Cap);
			if (lane == 0 && inside) z[(size_t)h * p.c.Span + j - from] = s;
		}
	}
}

// weighted adds weighted values of n positions from a row of a head on, in ascending order (N18).
__device__ __forceinline__ float weighted(const attend &p, const uint32_t *pages, uint32_t first, const float *e,
	uint32_t n, float o, uint32_t head) {
	constexpr int batch = 32;
	const int i = threadIdx.x, dim = p.c.Dim;
	for (uint32_t j = 0; j < n;) {
		const uint32_t row = first + j, rest = min(n - j, p.c.PageRows - row % p.c.PageRows); // to the end of the page
		const float *values = p.values + cached(p, pages, row, head) + i;
		for (uint32_t k = 0; k < rest; k += batch) {
			float v[batch];
#pragma unroll
			for (int l = 0; l < batch; l++) v[l] = k + l < rest ? values[(size_t)(k + l) * dim] : 0;
#pragma unroll
			for (int l = 0; l < batch; l++)
				if (k + l < rest) o = __fmaf_rn(e[j + k + l], v[l], o);
		}
		j += rest;
	}
	return o;
}

// A block computes a head of a token, some weights at a time: an element of the output is a thread's, in ascending
// positions; the last warp adds the weights.
template <class Place> __device__ __forceinline__ void run(const attend &p, Place &&at) {
	constexpr uint32_t some = 512; // a multiple of the lanes
	__shared__ float room[32], e[some], total;
	at.await();
	const int head = at.block.x, t = at.block.y, dim = p.c.Dim, i = threadIdx.x, lane = threadIdx.x % 32;
	const bool last = threadIdx.x >= blockDim.x - 32;
	const Token token = p.tokens[t];
	const uint32_t from = p.c.Local ? token.From : 0, n = token.Position + 1 - from, *pages = p.pages + token.Pages;
	const float *z = p.z + ((size_t)t * p.c.Heads + head) * p.c.Span;
	float top = p.c.Sinks ? p.sinks[head] : __uint_as_float(0xff800000), o = 0, s = 0;
	for (uint32_t j = threadIdx.x; j < n; j += blockDim.x) top = fmaxf(top, z[j]);
	top = largest(top, room);
	for (uint32_t base = 0; base < n; base += some) {
		const uint32_t m = min(n - base, some);
		__syncthreads();
		for (uint32_t j = threadIdx.x; j < m; j += blockDim.x) e[j] = exponential(z[base + j] - top);
		__syncthreads();
		if (last && lane < 16)
			for (uint32_t j = lane; j < m; j += 16) s = s + e[j];
		if (i < dim) o = weighted(p, pages, from + base, e, m, o, head / (p.c.Heads / p.c.KVHeads));
	}
	if (last) {
		s = folded(s);
		if (lane == 0) total = p.c.Sinks ? s + exponential(p.sinks[head] - top) : s;
	}
	__syncthreads();
	if (i < dim) p.o[((size_t)t * p.c.Heads + head) * dim + i] = o / total;
}

} // namespace attention

// Grids: (some, key heads, tokens), shared memory for the queries of a key head; (heads, tokens) of as many threads as
// a head has elements, in whole warps, and a warp more.
extern "C" __global__ void __launch_bounds__(256) step_scores(const __grid_constant__ scores p) {
	attention::run(p, alone());
}
extern "C" __global__ void __launch_bounds__(1024) step_attend(const __grid_constant__ attend p) {
	attention::run(p, alone());
}
