#version 450
// Finish (runtime/device): scales and checks logits.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) buffer Y { uint y[]; };
layout(set = 0, binding = 1) readonly buffer Rows { uint rows[]; };
layout(set = 0, binding = 2) buffer Flags { uint flags[]; };
layout(push_constant) uniform Constants { uint n, vocab, step, divisor, scale, cap; };

uint finished(uint v) {
	if (divisor != 0) v = divide(v, divisor);
	if (scale != 0) v = mul(v, scale);
	return cap != 0 ? capped(v, cap) : v;
}

void main() {
	uint i = gl_GlobalInvocationID.x, r = gl_WorkGroupID.y;
	if (i >= vocab) return;
	uint before = y[r * vocab + i], v;
	EXACT(v = finished(before));
	if (!finite(v)) atomicMin(flags[rows[r]], step);
	y[r * vocab + i] = v;
}
