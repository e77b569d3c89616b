#version 450
// Attend (runtime/device): weights and weighted values of N18. One workgroup for a head of a token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
#include "norm.glsl"
layout(local_size_x = THREADS) in;
layout(set = 0, binding = 0) buffer Z { uint z[]; };
layout(set = 0, binding = 1) readonly buffer Values { uint values[]; };
layout(set = 0, binding = 2) readonly buffer Tokens { uvec4 tokens[]; };
layout(set = 0, binding = 3) readonly buffer Pages { uint pages[]; };
layout(set = 0, binding = 4) readonly buffer Sinks { uint sinks[]; };
layout(set = 0, binding = 5) writeonly buffer O { uint o[]; };
layout(push_constant) uniform Constants { uint n, heads, kvHeads, dim, pageRows, span, local, hasSinks; };
shared int top;

// weighted adds staged weights times column i of the values from a position on to v.
uint weighted(uint table, uint kv, uint first, uint n, uint i, uint v) {
	for (uint j = 0; j < n;) {
		uint p = first + j, end = min(n, j + pageRows - p % pageRows);
		uint row = ((pages[table + p / pageRows] * kvHeads + kv) * pageRows + p % pageRows) * dim + i;
		for (; MANY && j + 4 <= end; j += 4, row += 4 * dim) { // four loads on their way at once
			uint a[4];
			for (uint k = 0; k < 4; k++) a[k] = values[row + k * dim];
			for (uint k = 0; k < 4; k++) v = fused(staged[j + k], a[k], v);
		}
		for (; j < end; j++, row += dim) v = fused(staged[j], values[row], v);
	}
	return v;
}

void main() {
	uint id = gl_LocalInvocationID.x, head = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
	uvec4 token = tokens[t];
	uint first = local != 0 ? token.z : 0u, count = token.x + 1 - first, base = (t * heads + head) * span;
	uint kv = head / (heads / kvHeads);
	if (id == 0) top = hasSinks != 0 ? order(sinks[head]) : order(SIGN | INF);
	barrier();
	int m = order(SIGN | INF);
	EACH(j, count) m = max(m, order(z[base + j]));
	atomicMax(top, m);
	barrier();
	uint most = unorder(top), acc = 0u;
	for (uint from = 0; from < count; from += STAGE) {
		uint some = min(STAGE, count - from);
		barrier();
		for (uint i = 4 * id; i < min(4 * id + 4, some); i++) {
			uint before = z[base + from + i], e;
			EXACT(e = exponential(sub(before, most)));
			z[base + from + i] = e;
			staged[i] = e;
		}
		barrier();
		if (id < 16) {
			uint before = acc;
			EXACT(acc = lane(id, some, false, before));
		}
	}
	if (id < 16) lanes[id] = acc;
	tree(id);
	uint sum = lanes[0];
	if (hasSinks != 0) sum = add(sum, exponential(sub(sinks[head], most)));
	for (uint column = 0; column < dim; column += THREADS) {
		uint i = column + id, v = 0u;
		for (uint from = 0; from < count; from += STAGE) {
			uint some = min(STAGE, count - from);
			barrier();
			for (uint k = 4 * id; k < min(4 * id + 4, some); k++) staged[k] = z[base + from + k];
			barrier();
			if (i < dim) {
				uint before = v;
				EXACT(v = weighted(token.y, kv, first + from, some, i, before));
			}
		}
		if (i < dim) o[(t * heads + head) * dim + i] = divide(v, sum);
	}
}
