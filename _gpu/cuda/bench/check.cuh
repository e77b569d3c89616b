// Checks: every kernel of codes against plain loops, bit for bit.
#pragma once
#include "common.cuh"

// plain is the definition (N15, N20) in a plain loop.
__global__ void plain(const int8_t *w, const int8_t *q, codes p) {
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	int token = i / p.c.Rows, row = i % p.c.Rows;
	if (token >= (int)p.c.N) return;
	int acc = 0;
	for (int k = 0; k < (int)p.c.K; k++) acc += w[(size_t)row * p.c.K + k] * q[(size_t)token * p.c.K + k];
	put(p, token, row, __fmul_rn(__fmul_rn((float)acc, p.scales[p.c.PerRow ? row : 0]), p.d[token]));
}

enum Content { Random, Largest, Opposed, Zeros };

struct Case {
	int tokens, rows, k;
	Content content;
	bool plus; // everything else that a step can do, and 8 lanes
};

inline int8_t weightOf(Content c, int k) {
	uint64_t r = random64() >> 33;
	return c == Random ? (int)(r % 3) - 1 : c == Largest ? 1 : c == Opposed ? (k % 2 ? 1 : -1) : 0;
}

inline int8_t codeOf(Content c, int k) {
	uint64_t r = random64() >> 33;
	return c == Largest ? 127 : c == Opposed ? (k % 2 ? -127 : 127) : (int)(r % 255) - 127;
}

// different counts differences between a variant and the plain loop.
inline int different(Kernels &kernels, const Case &c, const std::vector<Variant> &variants) {
	std::vector<int8_t> w((size_t)c.rows * c.k), q((size_t)c.tokens * c.k);
	for (size_t i = 0; i < w.size(); i++) w[i] = weightOf(c.content, i % c.k);
	for (size_t i = 0; i < q.size(); i++) q[i] = codeOf(c.content, i % c.k);
	codes p = {};
	p.c.N = c.tokens, p.c.Rows = c.rows, p.c.K = p.c.Group = p.c.ActGroup = c.k, p.c.QWords = (c.k + 15) / 16 * 4;
	p.c.Lanes = c.plus ? 8 : 16, p.c.Bits = 2, p.c.Mul = 1, p.c.Ternary = 1,
		p.c.PerRow = p.c.Bias = p.c.Accumulate = c.plus;
	p.c.ResidualScale = c.plus ? 0.37f : 0, p.c.At = c.plus ? 3 : 0, p.c.LDY = c.rows + (c.plus ? 5 : 0);
	std::vector<uint32_t> words((size_t)c.tokens * p.c.QWords);
	for (int t = 0; t < c.tokens; t++) memcpy(&words[(size_t)t * p.c.QWords], &q[(size_t)t * c.k], c.k);
	std::vector<float> scales(c.rows), d(c.tokens), bias(c.rows), y((size_t)c.tokens * p.c.LDY);
	for (auto *v : {&scales, &d, &bias, &y})
		for (float &f : *v) f = (float)(int64_t)random64() / 9e18f;
	int8_t *dw = device(w), *dq = device(q);
	float *ref = device(y), *out = device(y);
	p.w = device(pack(w, c.rows, c.k, p.c.Lanes)), p.q = device(words);
	p.scales = device(scales), p.d = device(d), p.bias = device(bias);
	p.y = ref;
	plain<<<(c.tokens * c.rows + 255) / 256, 256>>>(dw, dq, p);
	std::vector<float> want(y.size()), got(y.size());
	must(cudaMemcpy(want.data(), ref, y.size() * 4, cudaMemcpyDeviceToHost), "plain");
	int wrong = 0;
	for (auto &v : variants) {
		if (v.kernel.find("gemv") != std::string::npos && c.tokens > 1) continue;
		must(cudaMemcpy(out, y.data(), y.size() * 4, cudaMemcpyHostToDevice));
		p.y = out;
		cudaError_t e = kernels.launch(v, p, 0, false);
		if (e == cudaSuccess) e = cudaDeviceSynchronize();
		must(e, v.name().c_str());
		must(cudaMemcpy(got.data(), out, y.size() * 4, cudaMemcpyDeviceToHost));
		int bad = 0, first = -1;
		for (size_t i = 0; i < y.size(); i++)
			if (memcmp(&got[i], &want[i], 4) && bad++ == 0) first = i;
		if (bad)
			printf("WRONG %s: %d tokens, %d×%d, content %d: %d of %zu, first %d: %g, want %g\n", v.name().c_str(),
				c.tokens,
				c.rows, c.k, c.content, bad, y.size(), first, got[first], want[first]);
		wrong += bad != 0;
	}
	for (void *m : {(void *)dw, (void *)dq, (void *)ref, (void *)out, (void *)p.w, (void *)p.q, (void *)p.scales,
		(void *)p.d,
			 (void *)p.bias})
		cudaFree(m);
	return wrong;
}

inline std::vector<Variant> allVariants() {
	std::vector<Variant> v;
	for (int parts : {1, 2, 4}) {
		for (auto *k : {"gemv32_4", "gemv32_8", "gemv64_2", "gemv64_4", "gemv64_8"})
			v.push_back({std::string("w2a8_") + k, 1, parts});
		v.push_back({"w2a8_few_8", 8, parts});
		v.push_back({"w2a8_few_32", 32, parts});
	}
	v.push_back({"w2a8_many_64", 64, 1});
	return v;
}

inline int check(Kernels &k) {
	const int shapes[][2] = {{1, 1}, {3, 5}, {64, 4}, {64, 32}, {65, 128}, {128, 64}, {127, 132}, {192, 516},
		{320, 260},
		{640, 1000}, {96, 2560}, {200, 6912}, {256, 27648}};
	const auto variants = k.without(allVariants());
	int wrong = 0, cases = 0;
	for (auto &s : shapes)
		for (int tokens : {1, 2, 7, 8, 9, 33, 64, 130, 300})
			for (int plus : {0, 1}) {
				Content c = Content((cases + plus) % 4);
				wrong += different(k, {tokens, s[0], s[1], cases % 3 ? c : Random, plus != 0}, variants);
				cases++;
			}
	printf("check: %d cases, %zu variants, %d wrong\n", cases, variants.size(), wrong);
	fflush(stdout);
	return wrong;
}

// checkOriginal multiplies by the kernel of microsoft/BitNet, so that what is measured beside ours is its work, done
// right.
inline void checkOriginal(Original &o) {
	if (!o.linear) return;
	const int rows = 2560, k = 6912;
	std::vector<int8_t> w((size_t)rows * k), q(k);
	for (auto &v : w) v = weightOf(Random, 0);
	for (auto &v : q) v = codeOf(Random, 0);
	std::vector<__nv_bfloat16> ones(8, __nv_bfloat16(1.f)), got(rows);
	__nv_bfloat16 *y = device(got), *s = device(ones);
	o.linear(device(q), (int8_t *)device(packOriginal(w, rows, k)), y, s, s, 1, rows, k, 0);
	must(cudaMemcpy(got.data(), y, rows * 2, cudaMemcpyDeviceToHost), "microsoft/BitNet");
	int wrong = 0;
	for (int m = 0; m < rows; m++) {
		int acc = 0;
		for (int i = 0; i < k; i++) acc += w[(size_t)m * k + i] * q[i];
		wrong += (float)got[m] != (float)__nv_bfloat16((float)acc);
	}
	printf("check of microsoft/BitNet: %d of %d wrong\n", wrong, rows);
}
