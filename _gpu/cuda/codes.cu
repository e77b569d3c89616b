// Codes of any width, and any scales, by definition: what the kernels of w2a8.cuh do not take.
#include "w2a8.cuh"

namespace every {

const int threads = 256, mostLanes = 64;

// word is 32 bits of codes: the digits of 8/bits rows at four columns.
template <int bits> struct word {
	static const int rows = 8 / bits;

	// row adds the products of the digits of a row.
	__device__ __forceinline__ static int row(uint32_t w, int j, uint32_t q, int acc) {
		if (bits == 8) return __dp4a((int)w, (int)q, acc);
		return dot4(w >> bits * j & (0x01010101u * ((1 << bits % 8) - 1)), q, acc);
	}
};

template <int bits> __device__ __forceinline__ uint32_t digits(const Codes &c, uint32_t w) {
	return bits == 2 && c.Ternary ? reversed(w) : w;
}

// sumOf is the sum of the products of codes, of those of digits. A digit of eight bits is the code.
template <int bits> __device__ __forceinline__ int sumOf(const Codes &c, int acc, int sum) {
	if (bits == 8) return acc;
	return c.Ternary ? sum - acc : c.Mul * acc + c.Add * sum;
}

// whole computes a panel for n tokens: one scale for all columns. Threads of a lane share its columns.
template <int bits, int n, class Place> __device__ __forceinline__ void whole(const codes &p, Place &&at) {
	typedef word<bits> W;
	__shared__ int totals[n][W::rows * mostLanes];
	at.await();
	const int lanes = p.c.Lanes, lane = threadIdx.x % lanes, quads = (p.c.K + 3) / 4, first = at.block.z * n;
	const uint32_t *w = p.w + (size_t)at.block.y * quads * lanes + lane;
	int acc[n][W::rows] = {}, sum[n] = {};
	for (int i = threadIdx.x; i < n * W::rows * mostLanes; i += threads) totals[0][i] = 0;
	__syncthreads();
#pragma unroll 4
	for (int k = threadIdx.x / lanes; k < quads; k += threads / lanes) {
		const uint32_t v = digits<bits>(p.c, __ldcs(w + (size_t)k * lanes));
#pragma unroll
		for (int t = 0; t < n; t++) {
			const uint32_t q = first + t < (int)p.c.N ? p.q[(size_t)(first + t) * p.c.QWords + k] : 0;
			sum[t] = sum4(q, sum[t]);
#pragma unroll
			for (int j = 0; j < W::rows; j++) acc[t][j] = W::row(v, j, q, acc[t][j]);
		}
	}
#pragma unroll
	for (int t = 0; t < n; t++)
#pragma unroll
		for (int j = 0; j < W::rows; j++) atomicAdd(&totals[t][j * lanes + lane], sumOf<bits>(p.c, acc[t][j], sum[t]));
	__syncthreads();
	for (int i = threadIdx.x; i < n * W::rows * lanes; i += threads) {
		const int t = i / (W::rows * lanes), own = i % (W::rows * lanes), row = at.block.y * W::rows * lanes + own;
		if (first + t < (int)p.c.N && row < (int)p.c.Rows) scaled(p, first + t, row, totals[t][own]);
	}
}

// blocks computes the rows of a word for a token, block of columns by block (N15).
template <int bits, class Place> __device__ __forceinline__ void blocks(const codes &p, Place &&at) {
	typedef word<bits> W;
	at.await();
	const Codes &c = p.c;
	const int i = at.block.x * threads + threadIdx.x, lanes = c.Lanes, lane = i % lanes, panel = i / lanes,
		t = at.block.y;
	const int quads = (c.K + 3) / 4, first = panel * lanes * W::rows;
	if (first >= (int)c.Rows) return;
	const bool weightGroups = c.Grouped, actGroups = c.ActGrouped;
	const int size = min(c.Group, c.ActGroup), scales = (c.K + c.ActGroup - 1) / c.ActGroup;
	const uint32_t *w = p.w + (size_t)panel * quads * lanes + lane, *q = p.q + (size_t)t * c.QWords;
	const float *d = p.d + (size_t)t * scales;
	float y[W::rows] = {};
	for (int from = 0; from < (int)c.K; from += size) {
		int acc[W::rows] = {}, sum = 0;
		for (int k = from / 4; k * 4 < min(from + size, (int)c.K); k++) {
			uint32_t x = q[k];
			if (k * 4 < from) x &= ~0u << 8 * (from - k * 4);
			if (k * 4 + 4 > from + size) x &= ~0u >> 8 * (k * 4 + 4 - from - size);
			const uint32_t v = digits<bits>(c, w[(size_t)k * lanes]);
			sum = sum4(x, sum);
#pragma unroll
			for (int j = 0; j < W::rows; j++) acc[j] = W::row(v, j, x, acc[j]);
		}
		const float act = d[from / c.ActGroup];
#pragma unroll
		for (int j = 0; j < W::rows; j++) {
			const int row = first + j * lanes + lane;
			if (row >= (int)c.Rows) break;
			const float a = __int2float_rn(sumOf<bits>(c, acc[j], sum));
			if (!weightGroups)
				y[j] = __fmaf_rn(a, act, y[j]);
			else
				y[j] = __fmaf_rn(actGroups ? a * act : a, p.scales[(size_t)row * c.PerRow + from / c.Group], y[j]);
		}
	}
#pragma unroll
	for (int j = 0; j < W::rows; j++) {
		const int row = first + j * lanes + lane;
		if (row >= (int)c.Rows) break;
		if (!weightGroups)
			y[j] = y[j] * p.scales[c.PerRow ? row : 0];
		else if (!actGroups)
			y[j] = y[j] * d[0];
		put(p, t, row, y[j]);
	}
}

template <int bits, class Place> __device__ __forceinline__ void whole1(const codes &p, Place &&at) {
	whole<bits, 1>(p, at);
}

template <int bits, class Place> __device__ __forceinline__ void whole4(const codes &p, Place &&at) {
	whole<bits, 4>(p, at);
}

} // namespace every

#define KERNEL(name, run) \
	extern "C" __global__ void __launch_bounds__(every::threads) name(const __grid_constant__ codes p) { \
		every::run(p, alone()); \
	}
#define KERNELS(bits) \
	KERNEL(codes##bits##_whole_1, whole1<bits>) \
	KERNEL(codes##bits##_whole_4, whole4<bits>) \
	KERNEL(codes##bits##_blocks, blocks<bits>)

// Grids: (1, panels, tokens or tokens/4); (words of a column/256, tokens).
KERNELS(1)
KERNELS(2)
KERNELS(4)
KERNELS(8)
#undef KERNELS
#undef KERNEL
