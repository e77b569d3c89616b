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
const uint MOST = 512; // elements of a head at most
shared uint result[MOST];
#define CELL(i) values[i]
#define ELEMENT(i) result[i]
#include "cache.glsl"

// rowOf is the row of a position.
uint rowOf(uint table, uint kv, uint p) {
	return ((pages[table + p / pageRows] * kvHeads + kv) * pageRows + p % pageRows) * rowWords();
}

// weighted adds staged weights times column i of the values from a position on to v.
uint weighted(uint table, uint kv, uint first, uint n, uint i, uint v) {
	for (uint j = 0; j < n;) {
		uint p = first + j, end = min(n, j + pageRows - p % pageRows);
		uint row = rowOf(table, kv, p), words = rowWords();
		for (; MANY && j + 4 <= end; j += 4, row += 4 * words) { // four loads on their way at once
			uint a[4];
			for (uint k = 0; k < 4; k++) a[k] = element(row + k * words, i);
			for (uint k = 0; k < 4; k++) v = fused(staged[j + k], a[k], v);
		}
		for (; j < end; j++, row += words) v = fused(staged[j], element(row, i), v);
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
			for (uint k = 4 * id; k < min(4 * id + 4, some); k++) {
				uint e = z[base + from + k];
				staged[k] = CODED ? mul(e, scaleOf(rowOf(token.y, kv, first + from + k))) : e;
			}
			barrier();
			if (i < dim) {
				uint before = v;
				EXACT(v = weighted(token.y, kv, first + from, some, i, before));
			}
		}
		if (i >= dim) continue;
		uint r = divide(v, sum);
		if (CACHE == I4) result[i] = r;
		else o[(t * heads + head) * dim + i] = r;
	}
	if (CACHE != I4) return;
	uint inverse = transform(id, THREADS);
	for (uint i = id; i < dim; i += THREADS) o[(t * heads + head) * dim + i] = mul(result[i], inverse);
}
