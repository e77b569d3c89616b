// The operations of runtime/device, as ops.go there defines them: for each one the struct of constants, and the
// parameter of its kernels, which is the addresses of its buffers followed by the constants.
#pragma once
#include <stdint.h>

struct Token {
	uint32_t Position, Pages, From;
	float Scale;
};

struct Prepare {
	uint32_t N, In, Stride, QWords, Group;
	uint32_t Gate, Norm, Bias, Quantize, Gather, Step;
	float Eps, Params[4];
};

struct prepare {
	const float *src, *weights, *bias;
	float *x;
	uint32_t *q;
	float *d;
	uint32_t *flags;
	const uint32_t *rows;
	Prepare c;
};

struct Codes {
	uint32_t N, Rows, K, QWords, LDY, At;
	uint32_t Lanes, Bits;
	int32_t Mul, Add;
	uint32_t Ternary;
	uint32_t PerRow, Group, Grouped, ActGroup, ActGrouped;
	uint32_t Bias, Accumulate;
	float ResidualScale;
};

struct codes {
	const uint32_t *w;
	const float *scales;
	const uint32_t *q;
	const float *d, *bias;
	float *y;
	Codes c;
};

struct Floats {
	uint32_t N, Rows, K, LDY, At, Type;
	uint32_t Bias, Accumulate;
	float ResidualScale;
};

struct floats {
	const void *w;
	const float *x, *bias;
	float *y;
	Floats c;
};

struct Heads {
	uint32_t N, Heads, KVHeads, Dim, LDY, Rot, Local, QNorm, KNorm, Own, RotateFirst, Pairs, PageRows, Step;
	float Clip, Eps;
};

struct heads {
	const float *y;
	const Token *tokens;
	const float *trig, *qnorm, *knorm;
	const uint32_t *pages;
	float *q, *keys, *values;
	uint32_t *flags;
	Heads c;
};

struct Scores {
	uint32_t N, Heads, KVHeads, Dim, PageRows, Span, Local;
	float Scale, Cap;
};

struct scores {
	const float *q, *keys;
	const Token *tokens;
	const uint32_t *pages;
	float *z;
	Scores c;
};

struct Attend {
	uint32_t N, Heads, KVHeads, Dim, PageRows, Span, Local, Sinks;
};

struct attend {
	const float *z;
	const float *values;
	const Token *tokens;
	const uint32_t *pages;
	const float *sinks;
	float *o;
	Attend c;
};

struct Residual {
	uint32_t N, Len, LDY, At, Norm, Bias, Accumulate, Step;
	float Eps, Scale;
};

struct residual {
	float *y;
	const float *weights, *bias;
	float *h;
	uint32_t *flags;
	Residual c;
};

struct Finish {
	uint32_t N, Vocab, Step;
	float Divisor, Scale, Cap;
};

struct finish {
	float *y;
	const uint32_t *rows;
	uint32_t *flags;
	Finish c;
};

// alone is the place of a block that is one of a launch of its own. With programmatic dependent launch it may begin,
// and read weights, while the launch before it runs; it waits in await before it touches anything else.
struct alone {
	uint3 block, grid;

	__device__ __forceinline__ alone() : block(blockIdx), grid({gridDim.x, gridDim.y, gridDim.z}) {
#if __CUDA_ARCH__ >= 900
		asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
	}

	__device__ __forceinline__ void await() const {
#if __CUDA_ARCH__ >= 900
		asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
	}
};

// put ends a linear layer: bias, then the residual (N15, N16, N20).
template <class P> __device__ __forceinline__ void put(const P &p, int token, int row, float v) {
	float *y = p.y + (size_t)token * p.c.LDY + p.c.At + row;
	if (p.c.Bias) v = __fadd_rn(v, __ldg(p.bias + row));
	if (p.c.Accumulate) v = __fadd_rn(*y, p.c.ResidualScale ? __fmul_rn(v, p.c.ResidualScale) : v);
	*y = v;
}
