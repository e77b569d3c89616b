#version 450
// Residual (runtime/device): a norm in place, and the addition to the residual stream. One workgroup for a token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
#define VECTOR(i) y[i]
layout(set = 0, binding = 0) buffer Y { uint y[]; };
layout(set = 0, binding = 1) readonly buffer Weights { uint weights[]; };
layout(set = 0, binding = 2) readonly buffer Biases { uint biases[]; };
layout(set = 0, binding = 3) buffer H { uint h[]; };
layout(set = 0, binding = 4) buffer Flags { uint flags[]; };
layout(push_constant) uniform Constants { uint n, len, ldy, at, norm, bias, accumulate, step, eps, scale; };
#include "norm.glsl"
layout(local_size_x = THREADS) in;

uint normalized(uint y, uint v, uint w, uint b) {
	uint r = mul(mul(y, v), w);
	return bias != 0 ? add(r, b) : r;
}

void main() {
	uint id = gl_LocalInvocationID.x, t = gl_WorkGroupID.x, base = t * ldy + at, v = 0u;
	if (norm != 0) {
		bool good;
		v = factor(id, base, len, norm, eps, good);
		if (id == 0 && !good) atomicMin(flags[t], step);
	}
	EACH(i, len) {
		uint r = y[base + i];
		if (norm != 0) {
			uint before = r, w = weights[i], b = bias != 0 ? biases[i] : 0u;
			EXACT(r = normalized(before, v, w, b));
			y[base + i] = r;
		}
		if (accumulate != 0) {
			uint before = h[t * len + i], sum;
			EXACT(sum = add(before, scale != 0 ? mul(r, scale) : r));
			h[t * len + i] = sum;
		}
	}
}
