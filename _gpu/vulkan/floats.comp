#version 450
// Floats (runtime/device): a matrix of floats times vectors (N16, N6). 16 invocations compute a row, for up to TOKENS
// tokens.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
#include "half.glsl"
layout(constant_id = 4) const uint TYPE = 0; // F32, F16, BF16
layout(constant_id = 5) const uint TOKENS = 1;
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) readonly buffer Weights { uint weights[]; };
layout(set = 0, binding = 1) readonly buffer X { uint x[]; };
layout(set = 0, binding = 2) readonly buffer Biases { uint biases[]; };
layout(set = 0, binding = 3) buffer Y { uint y[]; };
layout(push_constant) uniform Constants {
	uint n, rows, columns, ldy, at, type, bias, accumulate, residualScale;
};
shared uint part[256];

uint weight(uint i) {
	if (TYPE == 0) return weights[i];
	uint h = (weights[i >> 1] >> (16 * (i & 1u))) & 0xffffu;
	return TYPE == 2 ? h << 16 : half16(h);
}

uint acc[TOKENS];

// products are a lane of the products of a row and the vectors of some tokens.
void products(uint lane, uint base, uint t0, uint count) {
	for (uint t = 0; t < TOKENS; t++) acc[t] = 0u;
	uint i = lane;
	for (; MANY && i + 48 < columns; i += 64) { // four loads on their way at once
		uint w[4];
		for (uint j = 0; j < 4; j++) w[j] = weight(base + i + 16 * j);
		for (uint t = 0; t < TOKENS; t++) {
			if (t >= count) break;
			for (uint j = 0; j < 4; j++) acc[t] = fused(w[j], x[(t0 + t) * columns + i + 16 * j], acc[t]);
		}
	}
	for (; i < columns; i += 16) {
		uint w = weight(base + i);
		for (uint t = 0; t < TOKENS; t++) {
			if (t >= count) break;
			acc[t] = fused(w, x[(t0 + t) * columns + i], acc[t]);
		}
	}
}

// finished is an output: bias, scale and residual.
uint finished(uint v, uint m, uint before) {
	if (bias != 0) v = add(v, biases[m]);
	if (accumulate == 0) return v;
	return add(before, residualScale != 0 ? mul(v, residualScale) : v);
}

void main() {
	uint lane = gl_LocalInvocationID.x, id = gl_LocalInvocationIndex;
	uint m = gl_WorkGroupID.x * 16 + gl_LocalInvocationID.y, t0 = gl_WorkGroupID.y * TOKENS;
	uint count = min(TOKENS, n - t0);
	for (uint t = 0; t < TOKENS; t++) acc[t] = 0u;
	if (m < rows) EXACT(products(lane, m * columns, t0, count));
	for (uint t = 0; t < count; t++) {
		part[id] = acc[t];
		barrier();
		for (uint s = 8; s > 0; s >>= 1) {
			if (lane < s) part[id] = add(part[id], part[id + s]);
			barrier();
		}
		if (lane == 0 && m < rows) {
			uint sum = part[id], to = (t0 + t) * ldy + at + m, before = accumulate != 0 ? y[to] : 0u, v;
			EXACT(v = finished(sum, m, before));
			y[to] = v;
		}
		barrier();
	}
}
