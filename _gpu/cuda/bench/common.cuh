// What checks and measurements share: kernels of a module, their launches, and matrices.
#pragma once
#include "../w2a8.cuh"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

inline void must(cudaError_t e, const char *what = "") {
	if (e == cudaSuccess) return;
	printf("CUDA: %s %s\n", cudaGetErrorString(e), what);
	fflush(stdout);
	exit(1);
}

inline uint64_t random64() {
	static uint64_t x = 1;
	uint64_t z = x += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

template <class T> T *device(size_t n) {
	T *p;
	must(cudaMalloc(&p, n * sizeof(T) + 256), "memory");
	must(cudaMemset(p, 0xa5, n * sizeof(T))); // fresh memory often holds zeros, which hide what is not written
	return p;
}

template <class T> T *device(const std::vector<T> &v) {
	T *p = device<T>(v.size());
	must(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
	return p;
}

// Variant is a way to compute a Codes step.
struct Variant {
	std::string kernel;
	int tokens; // of a block
	int parts;  // blocks that share the columns of a panel: a cluster
	std::string name() const { return parts > 1 ? kernel + "/" + std::to_string(parts) : kernel; }
};

struct Kernels {
	cudaLibrary_t library;
	std::map<std::string, cudaKernel_t> byName;
	std::string skip;

	std::vector<Variant> without(std::vector<Variant> all) {
		std::vector<Variant> kept;
		for (auto &v : all)
			if (v.kernel.find(skip) == std::string::npos) kept.push_back(v);
		return kept;
	}

	explicit Kernels(const char *file) {
		must(cudaLibraryLoadFromFile(&library, file, nullptr, nullptr, 0, nullptr, nullptr, 0), file);
	}

	const void *get(const std::string &name) {
		cudaKernel_t &k = byName[name];
		if (!k) {
			must(cudaLibraryGetKernel(&k, library, name.c_str()), name.c_str());
			if (name.find("gemv") == std::string::npos)
				must(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
		}
		return k;
	}

	// launch starts a Codes step. early: it may begin while the one before it runs.
	cudaError_t launch(const Variant &v, codes p, cudaStream_t s, bool early) {
		cudaLaunchConfig_t c = {};
		cudaLaunchAttribute a[2];
		c.attrs = a, c.stream = s, c.blockDim = dim3(256);
		unsigned tile = v.kernel.find("gemv32") != std::string::npos ? 32 : 64,
			panels = (p.c.Rows + 63) / 64 * 64 / tile, groups = (p.c.N + v.tokens - 1) / v.tokens;
		if (v.kernel.find("many") != std::string::npos) {
			c.gridDim = dim3((panels + 1) / 2, groups), c.dynamicSmemBytes = 8 * (128 * v.tokens + 4096);
		} else {
			c.gridDim = dim3(v.parts, panels, groups);
			if (v.tokens > 1) c.dynamicSmemBytes = v.tokens * 65 * 4 * 8;
		}
		if (v.parts > 1) {
			a[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
			a[c.numAttrs++].val.clusterDim = {(unsigned)v.parts, 1, 1};
		}
		if (early) {
			a[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
			a[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
		}
		group g = {{p}, {0, ~0u, ~0u}};
		void *args[] = {&g};
		return cudaLaunchKernelExC(&c, get(v.kernel), args);
	}
};

// Original is the kernel of microsoft/BitNet, if its library is given.
struct Original {
	typedef void (*call)(int8_t *, int8_t *, __nv_bfloat16 *, __nv_bfloat16 *, __nv_bfloat16 *, int, int, int,
		cudaStream_t);
	call linear = nullptr;

	explicit Original(const char *file) {
		if (!file) return;
		void *lib = dlopen(file, RTLD_NOW);
		if (lib) linear = (call)dlsym(lib, "bitlinear_int8xint2");
		if (!linear) printf("%s\n", dlerror());
	}
};

inline size_t words(int rows, int k) { return (size_t)(rows + 63) / 64 * ((k + 3) / 4) * 16; }

// pack writes ternary weights [rows][k] as vnni4i-64, or with 8 lanes as vnni4i.
inline std::vector<uint32_t> pack(const std::vector<int8_t> &w, int rows, int k, int lanes) {
	std::vector<uint32_t> out(words(rows, k));
	for (int m = 0; m < rows; m++)
		for (int c = 0; c < k; c++) {
			uint32_t code = w[(size_t)m * k + c] & 3;
			code = code == 3 ? 2 : code;
			const int panel = m / (4 * lanes), field = m % (4 * lanes) / lanes;
			out[((size_t)panel * ((k + 3) / 4) + c / 4) * lanes + m % lanes] |= code << (c % 4 * 8 + field * 2);
		}
	return out;
}

// packOriginal writes them as gpu/pack_weight.py does.
inline std::vector<uint32_t> packOriginal(const std::vector<int8_t> &w, int rows, int k) {
	std::vector<uint32_t> out((size_t)rows * k / 16);
	for (int m = 0; m < rows; m += 16)
		for (int c = 0; c < k; c += 32)
			for (int i = 0; i < 16; i++)
				for (int j = 0; j < 32; j++) {
					int thread = i * 2 + j / 16, row = thread / 16 * 8 + thread % 8,
						col = j % 16 + 16 * (thread % 16 / 8);
					uint32_t code = w[(size_t)(m + row) * k + c + col] + 2;
					size_t at = (((size_t)m / 16 * (k / 32) + c / 32) * 16 + i) * 32 + j;
					out[at / 16] |= code << (at % 4 * 8 + at % 16 / 4 * 2);
				}
	return out;
}
