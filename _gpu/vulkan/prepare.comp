#version 450
// Prepare (runtime/device): gate, norm and quantization of the input of a linear layer. One workgroup for a token.
#extension GL_GOOGLE_include_directive : require
#include "soft.glsl"
#include "exact.glsl"
#define VECTOR(i) x[i]
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) readonly buffer Weights { uint weights[]; };
layout(set = 0, binding = 2) readonly buffer Biases { uint biases[]; };
layout(set = 0, binding = 3) buffer X { uint x[]; };
layout(set = 0, binding = 4) buffer Q { uint q[]; };
layout(set = 0, binding = 5) buffer D { uint d[]; };
layout(set = 0, binding = 6) buffer Flags { uint flags[]; };
layout(set = 0, binding = 7) readonly buffer Rows { uint rows[]; };
layout(push_constant) uniform Constants {
	uint n, inputs, stride, qwords, group, gate, norm, bias, quantize, gather, step, eps, p0, p1, p2, p3;
};
#include "norm.glsl"
layout(local_size_x = THREADS) in;
shared uint most;

const uint SILU = 1, RELU2 = 2, GELU = 3, XIELU = 4, SINGLE = 16;

// activation is N10, N19 and N42 of a gate, times what lies beside it.
uint activation(uint g, uint up) {
	uint kind = gate & 15u;
	if (kind == SILU) return mul(silu(g), up);
	if (kind == RELU2) {
		uint m = isNaN(g) || (g & SIGN) == 0u ? g : 0u;
		return mul(mul(m, m), up);
	}
	if (kind == GELU) {
		uint h = mul(0x3f000000u, g);
		uint inner = fused(0x3d372713u, mul(mul(g, g), g), g); // 0.044715
		return mul(fused(h, hyperbolic(mul(0x3f4c422au, inner)), h), up); // 0.797884561
	}
	if (kind == XIELU) {
		uint e = sub(sub(exponential(smaller(g, p3)), ONE), g);
		uint curve = mul(p1, e);
		if (!isNaN(g) && (g & SIGN) == 0u && g != 0u) curve = mul(mul(p0, g), g);
		return mul(add(curve, mul(p2, g)), up);
	}
	uint limit = p1;
	uint a = smaller(g, limit), u = add(smaller(larger(up, limit ^ SIGN), limit), ONE);
	return divide(mul(silu(mul(p0, a)), u), p0);
}

uint normalized(uint y, uint v, uint w, uint b) {
	uint r = mul(mul(y, v), w);
	return bias != 0 ? add(r, b) : r;
}

// codes is N14. The largest magnitudes of groups are in staged, at most STAGE of them.
void codes(uint id, uint t, uint base, uint row) {
	uint groups = (inputs + group - 1) / group;
	barrier();
	for (uint g = id; g < groups; g += THREADS) staged[g] = 0u;
	if (id == 0) most = 0u;
	barrier();
	for (uint w = id; 4 * w < inputs; w += THREADS) {
		uint top = 0u;
		for (uint i = 4 * w; i < min(4 * w + 4, inputs); i++) top = max(top, x[base + i] & ~SIGN);
		atomicMax(staged[4 * w / group], top);
	}
	barrier();
	for (uint g = id; g < groups; g += THREADS) {
		atomicMax(most, staged[g]);
		staged[g] = max(staged[g], 0x3727c5acu); // 1e-5
		d[t * groups + g] = divide(staged[g], 0x42fe0000u); // 127
	}
	barrier();
	if (id == 0 && most >= INF) atomicMin(flags[row], step);
	uint s = divide(0x42fe0000u, staged[0]);
	for (uint w = id; w < qwords; w += THREADS) {
		uint word = 0u;
		if (groups > 1 && 4 * w < inputs) s = divide(0x42fe0000u, staged[4 * w / group]);
		for (uint i = 4 * w; i < min(4 * w + 4, inputs); i++) {
			int c;
			EXACT(c = int(add(mul(x[base + i], s), 0x4b400000u) - 0x4b400000u)); // N8: the low bits of y + 1.5·2^23
			word |= uint(clamp(c, -127, 127) & 255) << (8 * (i & 3u));
		}
		q[t * qwords + w] = word;
	}
}

void main() {
	uint id = gl_LocalInvocationID.x, t = gl_WorkGroupID.x, base = t * inputs;
	uint row = gather != 0 ? rows[t] : t, from = row * stride;
	EACH(i, inputs) {
		uint v = src[from + i];
		if (gate != 0) {
			uint g = v, up = gate < SINGLE ? src[from + inputs + i] : ONE;
			EXACT(v = activation(g, up));
		}
		x[base + i] = v;
	}
	if (norm != 0) {
		bool good;
		uint v = factor(id, base, inputs, norm, eps, good);
		if (id == 0 && !good) atomicMin(flags[row], step);
		EACH(i, inputs) {
			uint y = x[base + i], w = weights[i], b = bias != 0 ? biases[i] : 0u, r;
			EXACT(r = normalized(y, v, w, b));
			x[base + i] = r;
		}
	}
	if (quantize != 0) codes(id, t, base, row);
}
