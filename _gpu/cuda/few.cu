// A few tokens, or many where there is no wgmma: int8 tensor cores. A warp computes a panel of 64 rows, four tiles of
// 16, for some columns; the warps of a block share a panel, and its columns. The four rows of a word are in four tiles,
// so that a masked word is an operand: tile i has one minus the weights, multiplied by 4^i.
#include "w2a8.cuh"

namespace few {

constexpr int warps = 8;

// multiply adds a 16×32 tile of weights without sign times 32×8 activations.
__device__ __forceinline__ void multiply(int (&c)[4], const uint32_t (&a)[4], uint2 b) {
	asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

template <int i> __device__ __forceinline__ void tile(int (&c)[4], const uint32_t (&u)[4], uint2 b) {
	const uint32_t a[4] = {field<i>(u[0]), field<i>(u[1]), field<i>(u[2]), field<i>(u[3])};
	multiply(c, a, b);
}

// A thread of a warp: group = lane/4 chooses rows 2·group and 2·group+1 of a tile and a token, pair = lane%4 quads.
// steps of 32 columns are in flight.
template <int groups, int steps> struct worker {
	int acc[groups][4][4], sum[groups];

	__device__ __forceinline__ void step(uint2 low, uint2 high, const uint2 (&x)[groups]) {
		const uint32_t u[4] = {reversed(low.x), reversed(low.y), reversed(high.x), reversed(high.y)};
#pragma unroll
		for (int g = 0; g < groups; g++) {
			tile<0>(acc[g][0], u, x[g]);
			tile<1>(acc[g][1], u, x[g]);
			tile<2>(acc[g][2], u, x[g]);
			tile<3>(acc[g][3], u, x[g]);
			sum[g] = sum4(x[g].y, sum4(x[g].x, sum[g]));
		}
	}

	__device__ __forceinline__ void run(const codes &p, int panel, int first, int from, int to, const alone &at) {
		const int lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4;
		const vectors16 v(p, panel, group / 2);
		const uint2 *w = (const uint2 *)v.first + group % 2;
		const int step2 = v.step * 2;
		const int stride = warps * 8;
		bool waited = false;
		for (int base = from + threadIdx.x / 32 * 8 + pair; base - pair < to || !waited; base += stride * steps) {
			uint2 low[steps] = {}, high[steps] = {};
#pragma unroll
			for (int i = 0; i < steps; i++) {
				int at = base + i * stride;
				if (at < to) low[i] = __ldcs(w + (size_t)at * step2);
				if (at + 4 < to) high[i] = __ldcs(w + (size_t)(at + 4) * step2);
			}
			if (!waited) at.await();
			waited = true;
#pragma unroll
			for (int i = 0; i < steps; i++) {
				int at = base + i * stride;
				if (at - pair >= to) break; // the same for the warp
				uint2 x[groups];
#pragma unroll
				for (int g = 0; g < groups; g++) {
					int token = first + g * 8 + group;
					const uint32_t *q = p.q + (size_t)token * p.c.QWords;
					x[g].x = token < (int)p.c.N && at < to ? q[at] : 0;
					x[g].y = token < (int)p.c.N && at + 4 < to ? q[at + 4] : 0;
				}
				step(low[i], high[i], x);
			}
		}
	}
};

template <int groups, int steps> __device__ __forceinline__ void run(const group &g) {
	extern __shared__ int shared[]; // [groups·8 tokens][64 rows] for each warp, then [groups·8] sums for each warp
	const alone at;
	uint32_t panel = at.block.y;
	const codes &p = chosen(g, panel);
	const int quads = (p.c.K + 3) / 4, each = (quads + at.grid.x - 1) / at.grid.x, from = min(at.block.x * each, quads);
	const int first = at.block.z * groups * 8, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4;
	const int values = groups * 8 * 64, tokens = min(groups * 8, (int)p.c.N - first);
	int *own = shared + threadIdx.x / 32 * values, *sums = shared + warps * values;
	worker<groups, steps> k = {};
	k.run(p, panel, first, from, min(from + each, quads), at);
#pragma unroll
	for (int g = 0; g < groups; g++) {
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int c = 0; c < 4; c++) {
				const int token = g * 8 + pair * 2 + c % 2;
				if (token < tokens) own[token * 64 + i * 16 + row * 2 + c / 2] = k.acc[g][i][c] >> 2 * i;
			}
		int s = k.sum[g];
		s += __shfl_xor_sync(~0u, s, 1);
		s += __shfl_xor_sync(~0u, s, 2);
		if (pair == 0) sums[threadIdx.x / 32 * groups * 8 + g * 8 + row] = s;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < tokens * 64; i += blockDim.x) {
		int s = 0;
#pragma unroll
		for (int w = 0; w < warps; w++) s += sums[w * groups * 8 + i / 64] - shared[w * values + i];
		shared[i] = s; // nobody else reads what this thread reads
	}
	__syncthreads();
	join(shared, tokens * 64, [&](int i, int s) {
		int token = first + i / 64, row = rowOf(p, panel, i % 16, i % 64 / 16);
		if (row < (int)p.c.Rows) scaled(p, token, row, s);
	});
}

} // namespace few

// Grid: (parts, panels, tokens/8 or tokens/32), a cluster of (parts); shared memory for 8·65 words of each token.
extern "C" __global__ void __launch_bounds__(few::warps * 32) w2a8_few_8(const __grid_constant__ group p) {
	few::run<1, 8>(p);
}
extern "C" __global__ void __launch_bounds__(few::warps * 32) w2a8_few_32(const __grid_constant__ group p) {
	few::run<4, 4>(p);
}
