#version 450
// What the float unit of a device does: the five operations that have an exact route, over triples of numbers.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Triples { uint triples[]; };
layout(set = 0, binding = 1) writeonly buffer Results { uint results[]; };
layout(push_constant) uniform Constants { uint n; };

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n) return;
	uint a = triples[3 * i], b = triples[3 * i + 1], c = triples[3 * i + 2];
	results[5 * i] = unitAdd(a, b);
	results[5 * i + 1] = unitMul(a, b);
	results[5 * i + 2] = unitFMA(a, b, c);
	results[5 * i + 3] = unitDiv(a, b);
	results[5 * i + 4] = real(int(a));
}
