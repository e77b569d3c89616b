// Measurements: graphs of launches on matrices that come from memory, one after another in 512 MB. Times are medians of
// replays, and replays of what is compared take turns.
#pragma once
#include "check.cuh"

struct Shape {
	int rows, k;
	size_t bytes() const { return words(rows, k) * 4; }
};

// Linear layers of BitNet b1.58 2B4T, gate and up together.
const Shape layer[] = {{3840, 2560}, {2560, 2560}, {13824, 2560}, {2560, 6912}}, upAlone = {6912, 2560};

// The int8 rate of the H100 SXM by its datasheet, dense, in operations per second.
const double tensorPeak = 1979e12;

__global__ void fill(uint32_t *w, size_t n, bool codes) {
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		uint32_t low = z, high = (uint32_t)(z >> 32) & ~low;
		w[i] = codes ? (low & 0x55555555) | (high & 0x55555555) << 1 : low;
	}
}

__global__ void readAll(const uint4 *p, size_t n, uint32_t *out) {
	uint32_t x = 0;
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;
	for (; i + 3 * step < n; i += 4 * step) {
		uint4 a = __ldcs(p + i), b = __ldcs(p + i + step), c = __ldcs(p + i + 2 * step), d = __ldcs(p + i + 3 * step);
		x ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
	}
	if (x == 12345) *out = x;
}

struct Timed {
	cudaGraphExec_t graph;
	std::vector<float> times;
	double median() {
		std::sort(times.begin(), times.end());
		return times[times.size() / 2] * 1e-3;
	}
};

struct Bench {
	Kernels &kernels;
	Original &original;
	cudaStream_t stream;
	cudaEvent_t from, to;
	const size_t arena = (size_t)512 << 20;
	uint32_t *weights;
	uint32_t *q;
	float *floats, *y;
	double bandwidth = 0;

	Bench(Kernels &k, Original &o) : kernels(k), original(o) {
		must(cudaStreamCreate(&stream));
		must(cudaEventCreate(&from));
		must(cudaEventCreate(&to));
		weights = device<uint32_t>(arena / 4 + (32 << 20)), q = device<uint32_t>(512 * 6912 / 4);
		floats = device(std::vector<float>(16384, 0.01f)), y = device<float>(512 * 13824);
		fill<<<1024, 256>>>(weights, arena / 4 + (32 << 20), true);
		fill<<<1024, 256>>>(q, 512 * 6912 / 4, false);
		must(cudaDeviceSynchronize());
	}

	Timed record(std::function<cudaError_t()> body) {
		cudaGraph_t g;
		Timed t;
		must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		cudaError_t e = body();
		must(cudaStreamEndCapture(stream, &g), "capture");
		must(e, "launch");
		must(cudaGraphInstantiate(&t.graph, g, 0), "instantiate");
		cudaGraphDestroy(g);
		return t;
	}

	void run(std::vector<Timed> &all, int times) {
		for (int i = -3; i < times; i++)
			for (auto &t : all) {
				float ms;
				must(cudaEventRecord(from, stream));
				must(cudaGraphLaunch(t.graph, stream));
				must(cudaEventRecord(to, stream));
				must(cudaEventSynchronize(to), "run");
				must(cudaEventElapsedTime(&ms, from, to));
				if (i >= 0) t.times.push_back(ms);
			}
		for (auto &t : all) cudaGraphExecDestroy(t.graph);
	}

	codes step(const Shape &s, int tokens, size_t at) {
		codes p = {};
		p.w = weights + at / 4, p.q = q, p.scales = p.d = p.bias = floats, p.y = y;
		p.c.N = tokens, p.c.Rows = p.c.LDY = s.rows, p.c.K = p.c.Group = p.c.ActGroup = s.k, p.c.QWords = s.k / 4;
		p.c.Lanes = 16, p.c.Bits = 2, p.c.Mul = 1, p.c.Ternary = 1;
		return p;
	}

	// chain launches the shapes in turn, on weights that follow one another, until all of the arena is read.
	Timed chain(std::vector<Shape> shapes, std::vector<Variant> variants, int tokens, bool early, int *launches) {
		return record([&] {
			size_t at = 0;
			*launches = 0;
			while (at < arena)
				for (size_t i = 0; i < shapes.size(); i++, ++*launches) {
					cudaError_t e = kernels.launch(variants[i], step(shapes[i], tokens, at), stream, early);
					if (e != cudaSuccess) return e;
					at += shapes[i].bytes();
				}
			return cudaSuccess;
		});
	}

	Timed chainOriginal(std::vector<Shape> shapes, int *launches) {
		return record([&] {
			size_t at = 0;
			*launches = 0;
			while (at < arena)
				for (auto &s : shapes) {
					original.linear((int8_t *)q, (int8_t *)weights + at, (__nv_bfloat16 *)y, (__nv_bfloat16 *)floats,
						(__nv_bfloat16 *)floats, 1, s.rows, s.k, stream);
					at += s.bytes(), ++*launches;
				}
			return cudaGetLastError();
		});
	}
};

inline double total(const std::vector<Shape> &shapes, int launches) {
	double b = 0;
	for (int i = 0; i < launches; i++) b += shapes[i % shapes.size()].bytes();
	return b;
}

inline void ceilings(Bench &b) {
	uint32_t *other = device<uint32_t>(b.arena / 4);
	std::vector<Timed> t = {b.record([&] {
		readAll<<<132 * 16, 512, 0, b.stream>>>((uint4 *)b.weights, b.arena / 16, b.y ? (uint32_t *)b.y : nullptr);
		return cudaGetLastError();
	}), b.record([&] { return cudaMemcpyAsync(other, b.weights, b.arena, cudaMemcpyDeviceToDevice, b.stream); })};
	b.run(t, 30);
	b.bandwidth = b.arena / t[0].median();
	printf("memory: read %.0f GB/s, copy %.0f GB/s (read and written)\n", b.bandwidth / 1e9,
		2 * b.arena / t[1].median() / 1e9);
	fflush(stdout);
	cudaFree(other);
}

inline void line(Bench &b, const char *what, const std::vector<Shape> &shapes, int launches, double seconds) {
	double bytes = total(shapes, launches);
	printf("  %-28s %7.3f us each, %5.0f GB/s, %.3f of reading\n", what, seconds / launches * 1e6,
		bytes / seconds / 1e9,
		bytes / seconds / b.bandwidth);
	fflush(stdout);
}

// decode measures all variants for some tokens on some shapes in turn, and returns the best.
inline Variant decode(Bench &b, std::vector<Shape> shapes, int tokens, std::vector<Variant> variants) {
	std::vector<Timed> t;
	std::vector<std::string> names;
	int launches = 0;
	for (int early : {0, 1})
		for (auto &v : variants) {
			t.push_back(b.chain(shapes, std::vector<Variant>(shapes.size(), v), tokens, early, &launches));
			names.push_back(v.name() + (early ? " early" : ""));
		}
	bool compare = b.original.linear && tokens == 1 && shapes[0].rows != upAlone.rows;
	if (compare) t.push_back(b.chainOriginal(shapes, &launches)), names.push_back("microsoft/BitNet");
	b.run(t, 15);
	size_t best = 0;
	for (size_t i = 0; i < t.size(); i++) {
		if (i < 2 * variants.size() && t[i].median() < t[best].median()) best = i;
		if (i == 2 * variants.size()) line(b, names[i].c_str(), shapes, launches, t[i].median());
	}
	line(b, ("best: " + names[best]).c_str(), shapes, launches, t[best].median());
	return variants[best % variants.size()];
}

inline void prompt(Bench &b, const std::vector<Variant> &variants) {
	const int tokens = 512;
	double sum = 0, operations = 0;
	for (auto &s : layer) {
		std::vector<Timed> t;
		int launches = 0;
		const double ops = 2.0 * tokens * s.rows * s.k;
		for (auto &v : variants)
			t.push_back(b.record([&] {
				for (launches = 0; launches < 24; launches++) {
					cudaError_t e = b.kernels.launch(v, b.step(s, tokens, launches * s.bytes()), b.stream, true);
					if (e != cudaSuccess) return e;
				}
				return cudaSuccess;
			}));
		b.run(t, 10);
		double best = 1;
		printf("%d tokens, %d×%d:", tokens, s.rows, s.k);
		for (size_t i = 0; i < t.size(); i++) {
			double each = t[i].median() / launches;
			best = std::min(best, each);
			printf("  %s %.1f us (%.0f TOPS)", variants[i].name().c_str() + 5, each * 1e6, ops / each / 1e12);
		}
		printf("\n");
		fflush(stdout);
		sum += best, operations += ops;
	}
	printf("%d tokens, linear layers of a block: %.1f us, %.0f TOPS, %.3f of %.0f\n", tokens, sum * 1e6,
		operations / sum / 1e12, operations / sum / tensorPeak, tensorPeak / 1e12);
	fflush(stdout);
}

inline void measure(Kernels &k, Original &original) {
	Bench b(k, original);
	ceilings(b);
	std::vector<Variant> one, some, many;
	for (auto &v : allVariants()) {
		bool gemv = v.kernel.find("gemv") != std::string::npos, wide = v.kernel.find("many") != std::string::npos;
		if (gemv || v.kernel == "w2a8_few_8") one.push_back(v);
		if (!gemv && !wide) some.push_back(v);
	}
	many.push_back({"w2a8_few_32", 32, 1});
	many.push_back({"w2a8_many_64", 64, 1});
	one = k.without(one), some = k.without(some), many = k.without(many);
	std::vector<Shape> shapes(layer, layer + 4);
	prompt(b, many);
	std::vector<Variant> best;
	for (auto &s : shapes) {
		printf("1 token, %d×%d:\n", s.rows, s.k);
		best.push_back(decode(b, {s}, 1, one));
	}
	printf("1 token, %d×%d:\n", upAlone.rows, upAlone.k);
	decode(b, {upAlone}, 1, one);
	for (auto &s : {Shape{55296, 5120}, Shape{5120, 27648}}) {
		printf("1 token, %d×%d:\n", s.rows, s.k);
		decode(b, {s}, 1, one);
	}
	printf("1 token, the shapes of a block in turn:\n");
	std::vector<Timed> t;
	int launches;
	t.push_back(b.chain(shapes, best, 1, false, &launches));
	t.push_back(b.chain(shapes, best, 1, true, &launches));
	if (original.linear) t.push_back(b.chainOriginal(shapes, &launches));
	b.run(t, 40);
	const char *names[] = {"best of each", "best of each, early", "microsoft/BitNet"};
	for (size_t i = 0; i < t.size(); i++) line(b, names[i], shapes, launches, t[i].median());
	for (int tokens : {2, 4, 8, 16, 32}) {
		printf("%d tokens, the shapes of a block in turn:\n", tokens);
		decode(b, shapes, tokens, some);
	}
}
