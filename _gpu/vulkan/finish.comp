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

void main() {
	uint i = gl_GlobalInvocationID.x, r = gl_WorkGroupID.y;
	if (i >= vocab) return;
	uint v = y[r * vocab + i];
	if (divisor != 0) v = divide(v, divisor);
	if (scale != 0) v = mul(v, scale);
	if (cap != 0) v = capped(v, cap);
	if (!finite(v)) atomicMin(flags[rows[r]], step);
	y[r * vocab + i] = v;
}
