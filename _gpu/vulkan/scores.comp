#version 450
// Scores (runtime/device): scores of N18. A workgroup computes 64 positions of a head of a token, 16 invocations for
// one.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) readonly buffer Queries { uint queries[]; };
layout(set = 0, binding = 1) readonly buffer Keys { uint keys[]; };
layout(set = 0, binding = 2) readonly buffer Tokens { uvec4 tokens[]; };
layout(set = 0, binding = 3) readonly buffer Pages { uint pages[]; };
layout(set = 0, binding = 4) writeonly buffer Z { uint z[]; };
layout(push_constant) uniform Constants {
	uint n, heads, kvHeads, dim, pageRows, span, local, scale, cap;
};
shared uint part[256];
#define CELL(i) keys[i]
#include "cache.glsl"

// product is a lane of the product of a query and a key.
uint product(uint lane, uint q, uint row) {
	uint i = lane, acc = 0u;
	for (; MANY && i + 48 < dim; i += 64) { // four loads on their way at once
		uint a[4], b[4];
		for (uint j = 0; j < 4; j++) {
			a[j] = queries[q + i + 16 * j];
			b[j] = element(row, i + 16 * j);
		}
		for (uint j = 0; j < 4; j++) acc = fused(a[j], b[j], acc);
	}
	for (; i < dim; i += 16) acc = fused(queries[q + i], element(row, i), acc);
	return acc;
}

// codes is a lane of the product of their codes.
int codes(uint lane, uint q, uint row) {
	int sum = 0;
	for (uint w = lane; w < queryCodes(); w += 16) {
		int word = int(queries[q + w]);
		for (uint k = 0; k < 4; k++) sum += bitfieldExtract(word, int(8 * k), 8) * code(row, 4 * w + k);
	}
	return sum;
}

uint score(uint sum, uint q, uint row) {
	if (CODED) sum = mul(mul(real(int(sum)), scaleOf(row)), queries[q + queryCodes()]);
	uint v = mul(sum, scale);
	return cap != 0 ? capped(v, cap) : v;
}

void main() {
	uint lane = gl_LocalInvocationID.x, id = gl_LocalInvocationIndex, head = gl_WorkGroupID.y, t = gl_WorkGroupID.z;
	uvec4 token = tokens[t];
	uint first = local != 0 ? token.z : 0u, from = first + gl_WorkGroupID.x * 64;
	uint kv = head / (heads / kvHeads), q = (t * heads + head) * queryWords();
	for (uint k = 0; k < 4; k++) {
		uint j = from + k * 16 + gl_LocalInvocationID.y, acc = 0u, row = 0;
		if (from + k * 16 > token.x) return; // all invocations alike
		if (j <= token.x) {
			row = ((pages[token.y + j / pageRows] * kvHeads + kv) * pageRows + j % pageRows) * rowWords();
			if (CODED) acc = uint(codes(lane, q, row));
			else EXACT(acc = product(lane, q, row));
		}
		part[id] = acc;
		barrier();
		for (uint s = 8; s > 0; s >>= 1) {
			if (lane < s) part[id] = CODED ? part[id] + part[id + s] : add(part[id], part[id + s]);
			barrier();
		}
		if (lane == 0 && j <= token.x) {
			uint sum = part[id], v;
			EXACT(v = score(sum, q, row));
			z[(t * heads + head) * span + j - first] = v;
		}
		barrier();
	}
}
