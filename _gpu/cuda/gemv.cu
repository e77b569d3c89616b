// One token: dot products of four bytes. A block computes the rows of a tile, a panel or the half of one, for all
// columns or for a part of them; the parts are the blocks of a cluster. Weights are requested before the block waits
// for the activations.
#include "w2a8.cuh"

namespace gemv {

constexpr int threads = 256;

// A tile has 64 or 32 rows; rows/16 threads read those of a quad, 16 bytes each.
template <int rows, int vectors> struct tile {
	static constexpr int readers = rows / 16, slots = threads / readers;

	const codes &p;
	const vectors16 w;
	int acc[16] = {}, sum = 0;

	__device__ __forceinline__ tile(const codes &p, int number)
		: p(p), w(p, number * rows / 64, number * readers % 4 + threadIdx.x % readers) {}

	__device__ __forceinline__ void multiply(uint4 v, uint32_t x) {
		sum = sum4(x, sum);
		const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
		for (int j = 0; j < 4; j++) {
			uint32_t u = reversed(word[j]);
			acc[4 * j] = dot4(field<0>(u), x, acc[4 * j]);
			acc[4 * j + 1] = dot4(field<1>(u), x, acc[4 * j + 1]);
			acc[4 * j + 2] = dot4(field<2>(u), x, acc[4 * j + 2]);
			acc[4 * j + 3] = dot4(field<3>(u), x, acc[4 * j + 3]);
		}
	}

	// part multiplies quads from … to−1. It calls begin when other buffers may be read.
	template <class Place, class F> __device__ __forceinline__ void part(int from, int to, Place &&at, F begin) {
		const int first = from + threadIdx.x / readers;
		for (int base = first; base < to || base == first; base += slots * vectors) {
			uint4 v[vectors];
			uint32_t x[vectors];
#pragma unroll
			for (int i = 0; i < vectors; i++)
				if (base + i * slots < to) v[i] = __ldcs(w.first + (size_t)(base + i * slots) * w.step);
			if (base == first) {
				at.await();
				begin();
			}
#pragma unroll
			for (int i = 0; i < vectors; i++) x[i] = base + i * slots < to ? p.q[base + i * slots] : 0;
#pragma unroll
			for (int i = 0; i < vectors; i++)
				if (base + i * slots < to) multiply(v[i], x[i]);
		}
	}

	// halve adds what the lane at a distance has of half of n sums, and gives it the other half.
	template <int n> __device__ __forceinline__ void halve(int distance) {
		bool high = threadIdx.x & distance;
#pragma unroll
		for (int i = 0; i < n / 2; i++) {
			int keep = high ? acc[i + n / 2] : acc[i], give = high ? acc[i] : acc[i + n / 2];
			acc[i] = keep + __shfl_xor_sync(~0u, give, distance);
		}
	}

	// gather adds the sums of the threads of a block: total[row of the tile, in words of a vector].
	__device__ __forceinline__ void gather(int *total, int (*warps)[rows]) {
#pragma unroll
		for (int i = 0; i < 16; i++) acc[i] = sum - (acc[i] >> 2 * (i % 4));
		halve<16>(16);
		halve<8>(8);
		halve<4>(4);
		if (readers == 2) halve<2>(2);
		constexpr int left = readers / 2;
		const int lane = threadIdx.x % 32,
			at = lane / 16 * 8 + lane / 8 % 2 * 4 + lane / 4 % 2 * 2 + (left == 1 ? lane / 2 % 2 : 0);
#pragma unroll
		for (int i = 0; i < left; i++) warps[threadIdx.x / 32][lane % readers * 16 + at + i] = acc[i];
		__syncthreads();
		if (threadIdx.x < rows) {
			int s = 0;
#pragma unroll
			for (int i = 0; i < threads / 32; i++) s += warps[i][threadIdx.x];
			total[threadIdx.x] = s;
		}
		__syncthreads();
	}
};

// output is what becomes of a sum. All that it needs is read before there are sums.
struct output {
	int row;
	float scale, bias, d, old;
	float *y;

	__device__ __forceinline__ output(const codes &p, int row) : row(min(row, (int)p.c.Rows - 1)), d(0), old(0) {
		scale = __ldg(p.scales + (p.c.PerRow ? this->row : 0));
		bias = p.c.Bias ? __ldg(p.bias + this->row) : 0;
		y = row < (int)p.c.Rows ? p.y + p.c.At + row : nullptr;
	}

	__device__ __forceinline__ void begin(const codes &p) {
		d = p.d[0];
		if (p.c.Accumulate && y) old = *y;
	}

	__device__ __forceinline__ void put(const codes &p, int sum) const {
		float v = __fmul_rn(__fmul_rn(__int2float_rn(sum), scale), d);
		if (p.c.Bias) v = __fadd_rn(v, bias);
		if (p.c.Accumulate) v = __fadd_rn(old, p.c.ResidualScale ? __fmul_rn(v, p.c.ResidualScale) : v);
		if (y) *y = v;
	}
};

template <int rows, int vectors, class Place> __device__ __forceinline__ void run(const group &g, Place &&at) {
	__shared__ int warps[threads / 32][rows], total[rows];
	uint32_t number = at.block.y;
	const codes &p = chosen(g, number);
	const int quads = (p.c.K + 3) / 4, each = (quads + at.grid.x - 1) / at.grid.x, from = min(at.block.x * each, quads);
	tile<rows, vectors> t(p, number);
	output out(p, rowOf(p, number * rows / 64, number * rows / 4 % 16 + threadIdx.x / 4 % (rows / 4), threadIdx.x % 4));
	t.part(from, min(from + each, quads), at, [&] { out.begin(p); });
	t.gather(total, warps);
	// sum i, which thread i has, is of word i/4 of the tile, field i%4
	join(total, rows, [&](int, int s) { out.put(p, s); });
}

} // namespace gemv

#define KERNEL(rows, vectors) \
	extern "C" __global__ void __launch_bounds__(gemv::threads) \
		w2a8_gemv##rows##_##vectors(const __grid_constant__ group g) { \
		gemv::run<rows, vectors>(g, alone()); \
	}

// Grid: (parts, tiles), a cluster of (parts). The names say the rows of a tile, and the vectors in flight.
KERNEL(32, 4)
KERNEL(32, 8)
KERNEL(64, 2)
KERNEL(64, 4)
KERNEL(64, 8)
#undef KERNEL
