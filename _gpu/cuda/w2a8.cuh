// Two-bit weights times int8 activations: what the kernels for one token, for a few and for many share.
//
// Weights are the bytes of the layouts vnni4i-64 and vnni4i as the packed file holds them: panels of 4·lanes rows, with
// 16 or 8 lanes. The 32-bit word (panel·⌈K/4⌉ + quad)·lanes + lane holds rows lane, lane + lanes, lane + 2·lanes and
// lane + 3·lanes of the panel (bits 0, 2, 4 and 6 of each byte) at columns 4·quad … 4·quad+3 (bytes). Codes 0, 1, 2 are
// the weights 0, +1, −1. Kernels compute 64 rows, which are 16 words of a quad: a panel, or two.
#pragma once
#include "ops.cuh"
#include <cooperative_groups.h>

// group is up to three Codes steps that are apart and read the same vectors, in one launch. first is the number of the
// first tile of each; those of steps that are not there are beyond all others.
struct group {
	codes p[3];
	uint32_t first[3];
};

// chosen is the step that a tile belongs to. The tile becomes its number there.
__device__ __forceinline__ const codes &chosen(const group &g, uint32_t &tile) {
	const int i = (tile >= g.first[1]) + (tile >= g.first[2]);
	tile -= g.first[i];
	return g.p[i];
}

// vectors are those of 16 bytes, four words, that a thread reads of 64 rows: vector v of 4.
struct vectors16 {
	const uint4 *first;
	int step; // from a quad to the next one

	__device__ __forceinline__ vectors16(const codes &p, int rows64, int v) {
		const int quads = (p.c.K + 3) / 4, lanes = p.c.Lanes;
		// where there is no second panel
		if (lanes == 8) rows64 = min(rows64 * 2 + v / 2, (int)(p.c.Rows - 1) / 32), v %= 2;
		step = lanes / 4;
		first = (const uint4 *)p.w + (size_t)rows64 * quads * step + v;
	}
};

// rowOf is the row of a field of word 0 … 15 of 64 rows.
__device__ __forceinline__ int rowOf(const codes &p, int rows64, int word, int field) {
	return rows64 * 64 + (p.c.Lanes == 8 ? word / 8 * 32 + field * 8 + word % 8 : field * 16 + word);
}

// reversed turns 16 codes into one minus the weight: 0, 1, 2 become 1, 0, 2, so that a field that is masked, not
// shifted, is a byte without a sign. It is a shift and one operation of three operands.
__device__ __forceinline__ uint32_t reversed(uint32_t v) {
	const uint32_t low = 0x55555555u;
	return low & ~(v | v >> 1) | ~low & v;
}

// field keeps the fields of one of the four rows of a reversed word, multiplied by 4^i.
template <int i> __device__ __forceinline__ uint32_t field(uint32_t u) { return u & 0x03030303u << 2 * i; }

// dot4 adds the products of four bytes without and four with a sign.
__device__ __forceinline__ int dot4(uint32_t u, uint32_t s, int acc) {
	asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(acc) : "r"(u), "r"(s), "r"(acc));
	return acc;
}

// sum4 adds four bytes with a sign.
__device__ __forceinline__ int sum4(uint32_t s, int acc) { return dot4(0x01010101u, s, acc); }

// scaled is the end of N15 for weights with one scale, or one per row, and activations with one.
__device__ __forceinline__ void scaled(const codes &p, int token, int row, int acc) {
	put(p, token, row, __fmul_rn(__fmul_rn(__int2float_rn(acc), __ldg(p.scales + (p.c.PerRow ? row : 0))), p.d[token]));
}

// join adds what the blocks of a cluster, which are the parts of a sum, have in total, and hands out the n sums.
template <class F> __device__ __forceinline__ void join(int *total, int n, F write) {
	int rank = 0, parts = 1;
#if __CUDA_ARCH__ >= 900
	auto cluster = cooperative_groups::this_cluster();
	rank = cluster.block_rank(), parts = cluster.num_blocks();
	if (parts > 1) cluster.sync();
#endif
	for (int i = rank * blockDim.x + threadIdx.x; i < n; i += parts * blockDim.x) {
		int s = total[i];
#if __CUDA_ARCH__ >= 900
		for (int part = 1; part < parts; part++) s += *cluster.map_shared_rank(total + i, (rank + part) % parts);
#endif
		write(i, s);
	}
#if __CUDA_ARCH__ >= 900
	if (parts > 1) cluster.sync(); // the memory of a block that has ended cannot be read
#endif
}
