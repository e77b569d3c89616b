#version 450
// Heads (runtime/device): splits queries, keys and values: norms, rotation, KV cache. One workgroup for a head of a token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
const uint THREADS = 64, MOST = 512; // elements of a head at most
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

void main() {
	uint id = gl_LocalInvocationID.x, i = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
	bool query = i < heads, value = i >= heads + kvHeads;
	uint head = query ? i : value ? i - heads - kvHeads : i - heads;
	for (uint k = id; k < dim; k += THREADS) {
		uint v = y[t * ldy + i * dim + k];
		x[k] = clip != 0 ? smaller(larger(v, clip ^ SIGN), clip) : v;
	}
	barrier();
	if (!value) {
		uint kind = query ? qNorm : kNorm;
		if (rotateFirst != 0) rotate(id, t);
		normalize(id, t, kind, head, query);
		if (rotateFirst == 0) rotate(id, t);
	}
	uvec4 token = tokens[t];
	uint row = (pages[token.y + token.x / pageRows] * kvHeads + head) * pageRows + token.x % pageRows;
	for (uint k = id; k < dim; k += THREADS) {
		if (query) queries[(t * heads + i) * dim + k] = token.w != 0 ? mul(x[k], token.w) : x[k];
		else if (value) values[row * dim + k] = x[k];
		else keys[row * dim + k] = x[k];
	}
}
