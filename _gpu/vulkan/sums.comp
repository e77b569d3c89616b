#version 450
// Sums (runtime/device): sums of the codes of quantized vectors, and these times their scales (N39). One workgroup for
// a token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
const uint THREADS = 256, MOST = 1024; // blocks of a vector
layout(local_size_x = THREADS) in;
layout(set = 0, binding = 0) readonly buffer Q { int q[]; };
layout(set = 0, binding = 1) readonly buffer D { uint d[]; };
layout(set = 0, binding = 2) writeonly buffer Sums { int sums[]; };
layout(set = 0, binding = 3) writeonly buffer S { uint scaled[]; };
layout(push_constant) uniform Constants { uint n, columns, qwords, group, actGroup, width; };
shared int total[MOST];

// scaledSum is s of N39 of a group.
uint scaledSum(uint t, uint g, uint block, uint blocks) {
	uint v = 0u, groups = (columns + actGroup - 1) / actGroup;
	for (uint b = (g * group + block - 1) / block; b < blocks && b * block / group == g; b++) {
		v = add(v, mul(real(total[b]), d[t * groups + b * block / actGroup]));
	}
	return v;
}

void main() {
	uint id = gl_LocalInvocationID.x, t = gl_WorkGroupID.x;
	uint block = min(group, actGroup), blocks = (columns + block - 1) / block;
	for (uint b = id; b < blocks; b += THREADS) total[b] = 0;
	barrier();
	for (uint w = id; 4 * w < columns; w += THREADS) { // columns beyond the last one have codes 0
		int word = q[t * qwords + w], sum = 0;
		for (int k = 0; k < 32; k += 8) sum += bitfieldExtract(word, k, 8);
		atomicAdd(total[4 * w / block], sum);
	}
	barrier();
	for (uint b = id; b < blocks; b += THREADS) sums[t * blocks + b] = total[b];
	for (uint g = id; g < width; g += THREADS) {
		uint v;
		EXACT(v = scaledSum(t, g, block, blocks));
		scaled[t * width + g] = v;
	}
}
