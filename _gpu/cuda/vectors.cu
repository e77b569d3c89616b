// Steps that work on the vectors of tokens, a block per token or per head: Prepare, Heads, Residual, Finish.
#include "numerics.cuh"

namespace vectors {

const int threads = 256;

extern __shared__ float x[]; // of the vector, or of a head

const int batch = 8; // values that a thread requests before it uses the first one

// read makes the vector of a token: its row, or the gated product of it.
__device__ __forceinline__ void read(const prepare &p, const float *row) {
	const int n = p.c.In, kind = p.c.Gate % gateSingle;
	const bool up = kind != gateNone && p.c.Gate < gateSingle;
	for (int from = threadIdx.x; from < n; from += threads * batch) {
		float a[batch], b[batch];
#pragma unroll
		for (int j = 0; j < batch; j++) {
			const int i = min(from + j * threads, n - 1);
			a[j] = row[i];
			b[j] = up ? row[n + i] : 1;
		}
#pragma unroll
		for (int j = 0; j < batch; j++) {
			const int i = from + j * threads;
			if (i < n) x[i] = kind == gateNone ? a[j] : gated(kind, a[j], b[j], p.c.Params);
		}
	}
	__syncthreads();
}

// finishNorm ends a norm of the vector: scale, weights and bias.
__device__ __forceinline__ void finishNorm(const prepare &p, float scale) {
	const int n = p.c.In;
	for (int from = threadIdx.x; from < n; from += threads * batch) {
		float w[batch], b[batch];
#pragma unroll
		for (int j = 0; j < batch; j++) {
			const int i = min(from + j * threads, n - 1);
			w[j] = __ldg(p.weights + i);
			b[j] = p.c.Bias ? __ldg(p.bias + i) : 0;
		}
#pragma unroll
		for (int j = 0; j < batch; j++) {
			const int i = from + j * threads;
			if (i >= n) continue;
			const float v = x[i] * scale * w[j];
			x[i] = p.c.Bias ? v + b[j] : v;
		}
	}
}

// expect brings the weights of a norm to the L2 cache.
__device__ __forceinline__ void expect(const prepare &p) {
	if (p.c.Norm == normNone) return;
	for (uint32_t i = threadIdx.x * 32; i < p.c.In; i += threads * 32)
		asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weights + i));
}

// quantizer holds the scales of a group of columns (N14).
struct quantizer {
	float s, d;

	__device__ __forceinline__ explicit quantizer(uint32_t maxabs) {
		float a = __uint_as_float(maxabs), b = a > 1e-5f ? a : 1e-5f;
		s = 127 / b, d = b / 127;
	}

	__device__ __forceinline__ uint32_t code(int i, int n) const {
		if (i >= n) return 0;
		float r = (x[i] * s + magic) - magic;
		return (uint32_t)(int)fminf(fmaxf(r, -127), 127) & 0xff;
	}

	__device__ __forceinline__ uint32_t word(int i, int n) const {
		return code(i, n) | code(i + 1, n) << 8 | code(i + 2, n) << 16 | code(i + 3, n) << 24;
	}
};

// quantizeWhole quantizes the vector with one scale.
__device__ __forceinline__ void quantizeWhole(const prepare &p, int t, uint32_t maxabs) {
	const quantizer q(maxabs);
	uint32_t *out = p.q + (size_t)t * p.c.QWords;
	for (int w = threadIdx.x; w < (int)p.c.QWords; w += threads) out[w] = q.word(w * 4, p.c.In);
	if (threadIdx.x == 0) p.d[t] = q.d;
}

// quantizeGroups quantizes groups of columns, a warp each.
__device__ __forceinline__ void quantizeGroups(const prepare &p, int t) {
	const int n = p.c.In, size = p.c.Group, groups = (n + size - 1) / size, lane = threadIdx.x % 32;
	int8_t *out = (int8_t *)(p.q + (size_t)t * p.c.QWords);
	for (int g = threadIdx.x / 32; g < groups; g += threads / 32) {
		const int from = g * size, to = min(from + size, n);
		uint32_t top = 0;
		for (int i = from + lane; i < to; i += 32) top = max(top, magnitude(x[i]));
		const quantizer q(__reduce_max_sync(~0u, top));
		for (int i = from + lane; i < to; i += 32) out[i] = q.code(i, n);
		if (lane == 0) p.d[(size_t)t * groups + g] = q.d;
	}
	for (int i = n + threadIdx.x; i < (int)p.c.QWords * 4; i += threads) out[i] = 0;
}

// weigh ends a norm: weights and bias.
template <class P> __device__ __forceinline__ float weigh(const P &p, float v, float scale, int i) {
	v = v * scale * p.weights[i];
	return p.c.Bias ? v + p.bias[i] : v;
}

__device__ __forceinline__ void flag(uint32_t *flags, uint32_t token, uint32_t step) { atomicMin(flags + token, step); }

template <class Place> __device__ __forceinline__ void run(const prepare &p, Place &&at) {
	__shared__ uint32_t room[32];
	expect(p);
	at.await();
	const int t = at.block.x, n = p.c.In;
	const uint32_t row = p.c.Gather ? p.rows[t] : t;
	read(p, p.src + (size_t)row * p.c.Stride);
	bool good = true;
	float scale = 1;
	if (p.c.Norm != normNone) {
		good = center(x, n, p.c.Norm, p.c.Eps, &scale);
		finishNorm(p, scale);
	}
	uint32_t top = 0;
	for (int i = threadIdx.x; i < n; i += threads) { // those that this thread wrote
		p.x[(size_t)t * n + i] = x[i];
		top = max(top, magnitude(x[i]));
	}
	top = largest(top, room);
	if (p.c.Quantize) {
		good = good && top < 0x7f800000;
		if (p.c.Group == p.c.In)
			quantizeWhole(p, t, top);
		else
			quantizeGroups(p, t);
	}
	if (!good && threadIdx.x == 0) flag(p.flags, row, p.c.Step);
}

template <class Place> __device__ __forceinline__ void run(const residual &p, Place &&at) {
	at.await();
	const int t = at.block.x, n = p.c.Len;
	float *y = p.y + (size_t)t * p.c.LDY + p.c.At, scale = 1;
	if (p.c.Norm != normNone) {
		for (int i = threadIdx.x; i < n; i += threads) x[i] = y[i];
		__syncthreads();
		if (!center(x, n, p.c.Norm, p.c.Eps, &scale) && threadIdx.x == 0) flag(p.flags, t, p.c.Step);
	}
	for (int i = threadIdx.x; i < n; i += threads) {
		float v = p.c.Norm == normNone ? y[i] : weigh(p, x[i], scale, i), *h = p.h + (size_t)t * n + i;
		if (p.c.Norm != normNone) y[i] = v;
		if (p.c.Accumulate) *h = *h + (p.c.Scale != 0 ? v * p.c.Scale : v);
	}
}

// rotate is N17.
__device__ __forceinline__ void rotate(const heads &p, const float *trig) {
	const int half = p.c.Rot / 2;
	for (int i = threadIdx.x; i < half; i += blockDim.x) {
		int at = p.c.Pairs ? 2 * i : i, other = p.c.Pairs ? at + 1 : i + half;
		float c = trig[i], s = trig[half + i], a = x[at], b = x[other];
		x[at] = __fmaf_rn(-b, s, a * c);
		x[other] = __fmaf_rn(a, s, b * c);
	}
	__syncthreads();
}

// normHead normalizes a head.
__device__ __forceinline__ void normHead(const heads &p, uint32_t norm, const float *weights, int t) {
	if (norm == normNone) return;
	float scale;
	if (!center(x, p.c.Dim, norm, p.c.Eps, &scale) && threadIdx.x == 0) flag(p.flags, t, p.c.Step);
	for (int i = threadIdx.x; i < (int)p.c.Dim; i += blockDim.x) x[i] = x[i] * scale * weights[i];
	__syncthreads();
}

// row is the place of a position of a head in the KV cache.
template <class P> __device__ __forceinline__ size_t row(const P &p, const Token &t, uint32_t position, uint32_t head) {
	uint32_t page = p.pages[t.Pages + position / p.c.PageRows];
	return (((size_t)page * p.c.KVHeads + head) * p.c.PageRows + position % p.c.PageRows) * p.c.Dim;
}

template <class Place> __device__ __forceinline__ void run(const heads &p, Place &&at) {
	at.await();
	const int t = at.block.y, h = at.block.x, dim = p.c.Dim, q = p.c.Heads, kv = p.c.KVHeads;
	const Token token = p.tokens[t];
	const float *y = p.y + (size_t)t * p.c.LDY + (size_t)h * dim;
	for (int i = threadIdx.x; i < dim; i += blockDim.x) {
		float v = y[i];
		x[i] = p.c.Clip != 0 ? least(most(v, -p.c.Clip), p.c.Clip) : v;
	}
	__syncthreads();
	float *to, scale = 0;
	if (h < q + kv) {
		const float *trig = p.trig + ((size_t)t * 2 + p.c.Local) * p.c.Rot;
		const int own = p.c.Own ? h < q ? h : h - q : 0;
		if (p.c.RotateFirst) rotate(p, trig);
		if (h < q)
			normHead(p, p.c.QNorm, p.qnorm + own * dim, t);
		else
			normHead(p, p.c.KNorm, p.knorm + own * dim, t);
		if (!p.c.RotateFirst) rotate(p, trig);
	}
	if (h < q)
		to = p.q + ((size_t)t * q + h) * dim, scale = token.Scale;
	else if (h < q + kv)
		to = p.keys + row(p, token, token.Position, h - q);
	else
		to = p.values + row(p, token, token.Position, h - q - kv);
	for (int i = threadIdx.x; i < dim; i += blockDim.x) to[i] = scale != 0 ? x[i] * scale : x[i];
}

template <class Place> __device__ __forceinline__ void run(const finish &p, Place &&at) {
	at.await();
	const int r = at.block.y;
	const uint32_t i = at.block.x * threads + threadIdx.x;
	if (i >= p.c.Vocab) return;
	float *y = p.y + (size_t)r * p.c.Vocab + i, v = *y;
	if (p.c.Divisor != 0) v = v / p.c.Divisor;
	if (p.c.Scale != 0) v = v * p.c.Scale;
	if (p.c.Cap != 0) v = capped(v, p.c.Cap);
	*y = v;
	if (!finite(v)) flag(p.flags, p.rows[r], p.c.Step);
}

} // namespace vectors

// Grids: a block per token, except heads: (query, key and value heads, tokens), and finish: (logits/256, rows). Shared
// memory: 4 bytes for each element of a vector or head.
extern "C" __global__ void __launch_bounds__(256) step_prepare(const __grid_constant__ prepare p) {
	vectors::run(p, alone());
}
extern "C" __global__ void __launch_bounds__(256) step_residual(const __grid_constant__ residual p) {
	vectors::run(p, alone());
}
extern "C" __global__ void __launch_bounds__(256) step_heads(const __grid_constant__ heads p) {
	vectors::run(p, alone());
}
extern "C" __global__ void __launch_bounds__(256) step_finish(const __grid_constant__ finish p) {
	vectors::run(p, alone());
}
