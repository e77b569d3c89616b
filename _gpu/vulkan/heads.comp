#version 450
// Heads (runtime/device): splits queries, keys and values: norms, rotation, KV cache. One workgroup for a head of a
// token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
const uint THREADS = 64, MOST = 512; // elements of a head at most
const uint QUERY = 0, KEY = 1, VALUE = 2;
layout(local_size_x = THREADS) in;
layout(set = 0, binding = 0) readonly buffer Y { uint y[]; };
layout(set = 0, binding = 1) readonly buffer Tokens { uvec4 tokens[]; };
layout(set = 0, binding = 2) readonly buffer Trig { uint trig[]; };
layout(set = 0, binding = 3) readonly buffer QWeights { uint qWeights[]; };
layout(set = 0, binding = 4) readonly buffer KWeights { uint kWeights[]; };
layout(set = 0, binding = 5) readonly buffer Pages { uint pages[]; };
layout(set = 0, binding = 6) writeonly buffer Queries { uint queries[]; };
layout(set = 0, binding = 7) writeonly buffer Keys { uint keys[]; };
layout(set = 0, binding = 8) writeonly buffer Values { uint values[]; };
layout(set = 0, binding = 9) buffer Flags { uint flags[]; };
layout(push_constant) uniform Constants {
	uint n, heads, kvHeads, dim, ldy, rot, local, qNorm, kNorm, own, rotateFirst, pairs, pageRows, step, clip, eps;
};
shared uint x[MOST];
shared uint lanes[16];
shared uint one;
shared uint most;
#define ELEMENT(i) x[i]
#include "cache.glsl"

void rotate(uint id, uint t) {
	barrier();
	uint h = rot / 2, from = (t * 2 + local) * rot;
	for (uint i = id; i < h; i += THREADS) {
		uint p = pairs != 0 ? 2 * i : i, q = pairs != 0 ? 2 * i + 1 : i + h;
		uint c = trig[from + i], s = trig[from + h + i], u = x[p], v = x[q];
		uint r;
		EXACT(r = fused(isNaN(v) ? v : v ^ SIGN, s, mul(u, c)));
		x[p] = r;
		EXACT(r = fused(u, s, mul(v, c)));
		x[q] = r;
	}
	barrier();
}

// lane adds elements, or their squares.
uint lane(uint id, bool squares) {
	uint acc = 0u;
	for (uint i = id; i < dim; i += 16) acc = squares ? fused(x[i], x[i], acc) : add(acc, x[i]);
	return acc;
}

uint total(uint id, bool squares) {
	barrier();
	if (id < 16) {
		uint acc;
		EXACT(acc = lane(id, squares));
		lanes[id] = acc;
	}
	barrier();
	for (uint s = 8; s > 0; s >>= 1) {
		if (id < s) lanes[id] = add(lanes[id], lanes[id + s]);
		barrier();
	}
	return lanes[0];
}

void normalize(uint id, uint t, uint kind, uint head, bool query) {
	if (kind == 0) return;
	uint count = real(int(dim)), first = own != 0 ? head * dim : 0;
	if (kind == 2) {
		uint mean = divide(total(id, false), count);
		for (uint i = id; i < dim; i += THREADS) x[i] = sub(x[i], mean);
	}
	uint sum = total(id, true);
	if (id == 0) {
		uint square = divide(sum, count);
		if (!finite(square)) atomicMin(flags[t], step);
		one = divide(ONE, softSqrt(add(square, eps)));
	}
	barrier();
	for (uint i = id; i < dim; i += THREADS) {
		uint before = x[i], w = query ? qWeights[first + i] : kWeights[first + i], r;
		EXACT(r = mul(mul(before, one), w));
		x[i] = r;
	}
	barrier();
}

// narrow is the binary16 of a number (N27).
uint narrow(uint a) {
	uint sign = (a >> 16) & 0x8000u, m = a & ~SIGN;
	if (m > INF) return sign | 0x7e00u;
	if (m >= 0x477ff000u) return sign | 0x7c00u; // 65520, half way to 2^16
	uint drop = 13, whole = m - (112u << 23);
	if (m < 0x38800000u) { // 2^-14: subnormal, in units of 2^-24
		drop = 126 - (m >> 23);
		if (drop > 24) return sign;
		whole = (m & 0x7fffffu) | 0x800000u;
	}
	uint keep = whole >> drop, rest = whole & ((1u << drop) - 1u), tie = 1u << (drop - 1);
	return sign | (rest > tie || (rest == tie && (keep & 1u) != 0u) ? keep + 1 : keep);
}

// nearest is a code of N82, given one of N14.
uint nearest(int c) {
	int m = abs(c);
	uint n = uint(m > 12) + uint(m > 24) + uint(m > 36) + uint(m > 50) + uint(m > 65) + uint(m > 83) + uint(m > 107);
	return c < 0 ? n | 8u : n;
}

// put stores a word of a row.
void put(uint kind, uint at, uint v) {
	if (kind == QUERY) queries[at] = v;
	else if (kind == KEY) keys[at] = v;
	else values[at] = v;
}

// spread transforms a row (N82): that of a query is divided by the size of a block.
void spread(uint id, uint kind) {
	uint inverse = transform(id, THREADS);
	if (kind != QUERY) return;
	for (uint i = id; i < dim; i += THREADS) x[i] = mul(x[i], inverse);
	barrier();
}

// quantized stores a row as codes with their scale (N14). One that is not finite is stored as anything.
void quantized(uint id, uint t, uint kind, uint to) {
	if (id == 0) most = 0x3727c5acu; // 1e-5
	barrier();
	for (uint i = id; i < dim; i += THREADS) atomicMax(most, x[i] & ~SIGN);
	barrier();
	uint s = divide(0x42fe0000u, most), bits = kind == QUERY || CACHE == I8 ? 8 : 4, per = 32 / bits; // 127
	uint count = (dim + per - 1) / per;
	for (uint w = id; w < count; w += THREADS) {
		uint word = 0u;
		for (uint k = 0; k < per; k++) {
			uint i = w * per + k;
			int c = 0;
			if (i < dim) EXACT(c = int(add(mul(x[i], s), 0x4b400000u) - 0x4b400000u)); // N8: the low bits
			c = clamp(c, -127, 127);
			word |= (bits == 8 ? uint(c & 255) : nearest(c)) << (bits * k);
		}
		put(kind, to + w, word);
	}
	if (id != 0) return;
	put(kind, to + count, divide(most, 0x42fe0000u));
	if (most >= INF) atomicMin(flags[t], step);
}

void main() {
	uint id = gl_LocalInvocationID.x, i = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
	uint kind = i < heads ? QUERY : i < heads + kvHeads ? KEY : VALUE;
	uint head = kind == QUERY ? i : kind == KEY ? i - heads : i - heads - kvHeads;
	for (uint k = id; k < dim; k += THREADS) {
		uint v = y[t * ldy + i * dim + k];
		x[k] = clip != 0 ? smaller(larger(v, clip ^ SIGN), clip) : v;
	}
	barrier();
	if (kind != VALUE) {
		uint norm = kind == QUERY ? qNorm : kNorm;
		if (rotateFirst != 0) rotate(id, t);
		normalize(id, t, norm, head, kind == QUERY);
		if (rotateFirst == 0) rotate(id, t);
	}
	uvec4 token = tokens[t];
	if (kind == QUERY && token.w != 0) {
		for (uint k = id; k < dim; k += THREADS) x[k] = mul(x[k], token.w);
	}
	barrier();
	if (CACHE == I4) spread(id, kind);
	uint row = (pages[token.y + token.x / pageRows] * kvHeads + head) * pageRows + token.x % pageRows;
	uint to = kind == QUERY ? (t * heads + i) * queryWords() : row * rowWords();
	if (CODED) {
		quantized(id, t, kind, to);
	} else if (CACHE == F32 || kind == QUERY) {
		for (uint k = id; k < dim; k += THREADS) put(kind, to + k, x[k]);
	} else {
		for (uint w = id; w < codeWords(); w += THREADS) {
			put(kind, to + w, narrow(x[2 * w]) | (2 * w + 1 < dim ? narrow(x[2 * w + 1]) << 16 : 0u));
		}
	}
}
