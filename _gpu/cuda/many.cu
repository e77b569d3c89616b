// Many tokens on Hopper: wgmma. A block computes 128 rows, a panel for each of its two warpgroups, for n tokens.
// Weights go through shared memory as they are, and become operands in registers: warp i of a warpgroup takes the rows
// of field i, so all warps of a warpgroup read the same words. Activations are the operand in shared memory: cores of 8
// tokens by 16 columns, 128 bytes. While the tensor cores multiply 128 columns, the warps decode the next ones.
#include "w2a8.cuh"

#if __CUDA_ARCH_FEAT_SM90_ALL || !defined(__CUDA_ARCH__)

namespace many {

// A stage of shared memory has some parts of 128 columns. There are two: one is copied while the other one is
// multiplied. A fence waits for all copies that are under way, so there is one per stage only.
constexpr int depth = 128, parts = 4, panels = 2, threads = panels * 128;
constexpr int weightBytes = panels * depth * 16; // of a part

template <int n> constexpr int partBytes = n * depth + weightBytes;

__device__ __forceinline__ void copy16(uint32_t to, const void *from, bool exists) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0));
}

// request copies a part to shared memory. What lies outside of the matrices is zero.
template <int n> __device__ __forceinline__ void request(const codes &p, uint32_t to, int k, int token, int panel) {
#pragma unroll
	for (int i = 0; i < n * depth / 16 / threads; i++) {
		int c = i * threads + threadIdx.x, t = token + c / 64 * 8 + c % 8, at = k + c / 8 % 8 * 16;
		bool exists = t < (int)p.c.N && at < (int)p.c.QWords * 4;
		copy16(to + c * 16, p.q + (exists ? (size_t)t * p.c.QWords + at / 4 : 0), exists);
	}
	to += n * depth;
#pragma unroll
	for (int i = 0; i < weightBytes / 16 / threads; i++) {
		int c = i * threads + threadIdx.x, own = panel + c / 128, quad = k / 4 + c % 128 / 4;
		bool exists = own * 64 < (int)p.c.Rows && quad < (int)(p.c.K + 3) / 4;
		const vectors16 v(p, exists ? own : 0, c % 4);
		copy16(to + c * 16, v.first + (exists ? (size_t)quad * v.step : 0), exists);
	}
}

// weights turns the fields at some bit of four codes into bytes −1, 0, +1.
__device__ __forceinline__ uint32_t weights(uint32_t v, int bit) {
	return (v >> bit & 0x03030303u) ^ (v >> (bit + 1) & 0x01010101u) * 0xfdu;
}

// decode makes the operands of a warp for 128 columns: four steps of 32.
__device__ __forceinline__ void decode(uint32_t (&a)[4][4], const char *words) {
	const int lane = threadIdx.x % 32, bit = threadIdx.x / 32 % 4 * 2;
	const uint2 *w = (const uint2 *)(words + threadIdx.x / 128 * (depth * 16)) + lane % 4 * 8 + lane / 4;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		uint2 low = w[i * 64], high = w[i * 64 + 32];
		a[i][0] = weights(low.x, bit), a[i][1] = weights(low.y, bit);
		a[i][2] = weights(high.x, bit), a[i][3] = weights(high.y, bit);
#pragma unroll
		for (int j = 0; j < 4; j++) asm volatile("" : "+r"(a[i][j])); // here, not where they are used
	}
}

#define R4(d, i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define R16(d, i) R4(d, i), R4(d, i + 4), R4(d, i + 8), R4(d, i + 12)
#define R32(d, i) R16(d, i), R16(d, i + 16)
#define A(a) "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define L16a "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define L16b "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"

// multiply starts 64 rows by n tokens by 32 columns.
__device__ __forceinline__ void multiply(int (&d)[32], const uint32_t (&a)[4], uint64_t b) {
	asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" L16a "," L16b "}, {%32,%33,%34,%35}, %36, 1;"
		: R32(d, 0) : A(a), "l"(b));
}

// cores describes activations in shared memory: neighbours in columns are 128 bytes apart, in tokens 1,024.
__device__ __forceinline__ uint64_t cores(uint32_t at) {
	return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32;
}

// start multiplies a part; finish waits for it.
template <int n> __device__ __forceinline__ void start(int (&d)[n / 2], const uint32_t (&a)[4][4], uint32_t part) {
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
	for (int i = 0; i < 4; i++) multiply(d, a[i], cores(part + i * 256));
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int n> __device__ __forceinline__ void finish(int (&d)[n / 2]) {
	asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
	for (int i = 0; i < n / 2; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// arrived waits for the copies of all threads, and shows them to the tensor cores.
__device__ __forceinline__ void arrived() {
	asm volatile("cp.async.wait_all;" ::: "memory");
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
}

template <int n> struct tile {
	const codes &p;
	char *memory;
	uint32_t address;
	int token, panel, count; // parts of all columns
	int d[n / 2];

	static __device__ __forceinline__ int place(int part) { return part % (2 * parts) * partBytes<n>; }

	// ask requests the parts of a stage.
	__device__ __forceinline__ void ask(int first) {
		for (int i = first; i < min(first + parts, count); i++)
			request<n>(p, address + place(i), i * depth, token, panel);
	}

	__device__ __forceinline__ void ready(int part, uint32_t (&a)[4][4]) {
		decode(a, memory + place(part) + n * depth);
	}

	// step multiplies a part and decodes the next one, if it is of the same stage.
	__device__ __forceinline__ void step(int part, const uint32_t (&a)[4][4], uint32_t (&next)[4][4]) {
		start<n>(d, a, address + place(part));
		if ((part + 1) % parts != 0) ready(part + 1, next);
		finish<n>(d);
	}

	__device__ __forceinline__ void run() {
		uint32_t even[4][4], odd[4][4];
		ask(0);
		for (int first = 0; first < count; first += parts) {
			arrived(); // and all are done with the stage before
			ask(first + parts);
			ready(first, even);
			for (int i = first; i < min(first + parts, count); i += 2) {
				step(i, even, odd);
				if (i + 1 < count) step(i + 1, odd, even);
			}
		}
	}

	// write ends the layer. A thread has two rows that are neighbours; it reads all that it needs before it writes.
	__device__ __forceinline__ void write() {
		const int lane = threadIdx.x % 32, own = panel + threadIdx.x / 128, rows = p.c.Rows;
		const int row = rowOf(p, own, lane / 4 * 2, threadIdx.x / 32 % 4);
		if (row >= rows) return;
		const int other = min(row + 1, rows - 1);
		const float2 scale = {p.scales[p.c.PerRow ? row : 0], p.scales[p.c.PerRow ? other : 0]};
		float scales[n / 4];
#pragma unroll
		for (int i = 0; i < n / 4; i++) scales[i] = p.d[min(token + i / 2 * 8 + lane % 4 * 2 + i % 2, (int)p.c.N - 1)];
#pragma unroll
		for (int i = 0; i < n / 4; i++) {
			const int t = token + i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
			if (t >= (int)p.c.N) continue;
			const float2 v = {__fmul_rn(__fmul_rn(__int2float_rn(d[at]), scale.x), scales[i]),
				__fmul_rn(__fmul_rn(__int2float_rn(d[at + 2]), scale.y), scales[i])};
			float *y = p.y + (size_t)t * p.c.LDY + p.c.At + row;
			if (!p.c.Bias && !p.c.Accumulate && row + 1 < rows && (uintptr_t)y % 8 == 0) {
				*(float2 *)y = v;
				continue;
			}
			put(p, t, row, v.x);
			if (row + 1 < rows) put(p, t, row + 1, v.y);
		}
	}
};

template <int n> __device__ __forceinline__ void run(const group &g) {
	extern __shared__ __align__(1024) char memory[];
	const alone at;
	at.await();
	uint32_t rows = at.block.x;
	const codes &p = chosen(g, rows);
	tile<n> t = {p, memory, (uint32_t)__cvta_generic_to_shared(memory), (int)at.block.y * n, (int)rows * panels,
		((int)p.c.K + depth - 1) / depth, {}};
	t.run();
	t.write();
}

} // namespace many

// Grid: (rows/128, tokens/n); dynamic shared memory: 2·parts·(n·128 + 4,096) bytes.
extern "C" __global__ void __launch_bounds__(many::threads, 2) w2a8_many_64(const __grid_constant__ group p) {
	many::run<64>(p);
}

#endif
