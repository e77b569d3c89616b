#version 450
// Reorder (runtime/device): the codes of quantized vectors in another order (F24). An invocation makes a word of a
// token.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Q { uint q[]; };
layout(set = 0, binding = 1) readonly buffer Order { uint order[]; };
layout(set = 0, binding = 2) writeonly buffer Out { uint ordered[]; };
layout(push_constant) uniform Constants { uint n, columns, qwords; };

void main() {
	uint w = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y, word = 0u;
	if (w >= qwords) return;
	for (uint i = 4 * w; i < min(4 * w + 4, columns); i++) {
		uint from = order[i];
		word |= (q[t * qwords + from / 4] >> (8 * (from & 3u)) & 255u) << (8 * (i & 3u));
	}
	ordered[t * qwords + w] = word;
}
