#version 450
// Codes (runtime/device): a matrix of codes times quantized vectors (N15). A workgroup computes LANES·VECTOR columns of
// words, each of 8/BITS rows, for up to TOKENS tokens; SLICES invocations share the columns of a row. With one token
// what counts is the number of bytes on their way: VECTOR 4 reads four words at once. With OFFSET it is OffsetCodes.
#extension GL_GOOGLE_include_directive : require
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packedDot(int a, int b, spirv_literal int format);
int dot4(int a, int b, int sum) { return sum + packedDot(a, b, 0); }
#else
int dot4(int a, int b, int sum) {
	for (int k = 0; k < 32; k += 8) sum += bitfieldExtract(a, k, 8) * bitfieldExtract(b, k, 8);
	return sum;
}
#endif
#include "soft.glsl"
#include "exact.glsl"
layout(constant_id = 4) const uint BITS = 2;
layout(constant_id = 5) const uint TOKENS = 1;
layout(constant_id = 6) const uint LANES = 8;
layout(constant_id = 7) const uint SLICES = 32;
layout(constant_id = 8) const uint TERNARY = 1;
layout(constant_id = 9) const uint VECTOR = 4; // 1 or 4
const uint ROWS = 8u / BITS;      // of a word
const uint WORDS = LANES * VECTOR; // side by side
const uint COLUMNS = ROWS * WORDS; // rows of a workgroup
layout(local_size_x_id = 6, local_size_y_id = 7) in;
#include "codes.glsl"
layout(set = 0, binding = 0) readonly buffer Weights4 { ivec4 weights4[]; };
shared int part[SLICES * COLUMNS];

// plusOne turns the codes 0, 1, 2 of a ternary word into weight + 1.
int plusOne(int v) {
	int lo = v & 0x55555555, hi = (v >> 1) & 0x55555555;
	return (lo << 1) | ((lo | hi) ^ 0x55555555);
}

int acc[ROWS * VECTOR][TOKENS];

// load reads the words of an invocation.
ivec4 load(uint at) { return VECTOR == 4 ? weights4[at / 4] : ivec4(weights[at], 0, 0, 0); }

// words adds the products of words of weights and the words of activations in the same columns.
void words(ivec4 v, uint quad, uint t0, uint count) {
	if (TERNARY != 0) for (uint w = 0; w < VECTOR; w++) v[w] = plusOne(v[w]);
	for (uint t = 0; t < TOKENS; t++) {
		if (t >= count) break;
		int a = q[(t0 + t) * qwords + quad], sum = 0;
		if (BITS != 8) sum = (TERNARY != 0 ? -1 : offset) * dot4(a, 0x01010101, 0);
		for (uint w = 0; w < VECTOR; w++) {
			for (uint r = 0; r < ROWS; r++) {
				uint i = w * ROWS + r;
				if (BITS == 8) {
					acc[i][t] = dot4(v[w], a, acc[i][t]);
					continue;
				}
				int digits = (v[w] >> int(BITS * r)) & (((1 << int(BITS)) - 1) * 0x01010101);
				if (TERNARY != 0) acc[i][t] = dot4(digits, a, acc[i][t] + sum);
				else acc[i][t] += factor * dot4(digits, a, 0) + sum;
			}
		}
	}
}

void clearSums() {
	for (uint i = 0; i < ROWS * VECTOR; i++) for (uint t = 0; t < TOKENS; t++) acc[i][t] = 0;
}

// share puts the sums of a token where other invocations see them.
void share(uint slice, uint lane, uint t) {
	for (uint w = 0; w < VECTOR; w++) {
		for (uint r = 0; r < ROWS; r++) part[slice * COLUMNS + r * WORDS + lane * VECTOR + w] = acc[w * ROWS + r][t];
	}
}

// addedAll adds the products of some blocks of columns to v, in their order.
uint addedAll(uint first, uint n, uint id, uint t, uint m, uint v) {
	for (uint s = 0; s < n; s++) v = added(part[s * COLUMNS + id], first + s, t, m, v);
	return v;
}

void main() {
	uint lane = gl_LocalInvocationID.x, slice = gl_LocalInvocationID.y, id = slice * LANES + lane;
	uint t0 = gl_WorkGroupID.y * TOKENS, count = min(TOKENS, n - t0);
	uint column = gl_WorkGroupID.x * WORDS + lane * VECTOR, panel = column / lanes, quads = (columns + 3) / 4;
	uint base = panel * quads * lanes + column % lanes;
	bool inside = panel * lanes * ROWS < rows;
	// Row of the sum that this invocation finishes: invocations 0 … COLUMNS − 1 do.
	uint mine = gl_WorkGroupID.x * WORDS + id % WORDS;
	uint m = mine / lanes * lanes * ROWS + id / WORDS * lanes + mine % lanes;
	bool finishes = id < COLUMNS && m < rows;

	if (grouped == 0 && actGrouped == 0) {
		clearSums();
		if (inside) {
			uint k = slice;
			for (; k + 3 * SLICES < quads; k += 4 * SLICES) { // four loads on their way at once
				ivec4 v0 = load(base + k * lanes), v1 = load(base + (k + SLICES) * lanes);
				ivec4 v2 = load(base + (k + 2 * SLICES) * lanes), v3 = load(base + (k + 3 * SLICES) * lanes);
				words(v0, k, t0, count);
				words(v1, k + SLICES, t0, count);
				words(v2, k + 2 * SLICES, t0, count);
				words(v3, k + 3 * SLICES, t0, count);
			}
			for (; k < quads; k += SLICES) words(load(base + k * lanes), k, t0, count);
		}
		for (uint t = 0; t < count; t++) {
			share(slice, lane, t);
			barrier();
			if (finishes) {
				int sum = 0;
				for (uint s = 0; s < SLICES; s++) sum += part[s * COLUMNS + id];
				store(t0 + t, m, real(withoutZero(sum, t0 + t, m, 0, 0)));
			}
			barrier();
		}
		return;
	}
	uint block = min(group, actGroup), blocks = (columns + block - 1) / block, most = (block + 3) / 4;
	uint sums[TOKENS];
	for (uint t = 0; t < TOKENS; t++) sums[t] = 0u;
	for (uint first = 0; first < blocks; first += SLICES) {
		uint b = first + slice;
		clearSums();
		if (inside && b < blocks) {
			uint end = min(quads, (b + 1) * most);
			for (uint k = b * most; k < end; k++) words(load(base + k * lanes), k, t0, count);
		}
		for (uint t = 0; t < TOKENS; t++) {
			if (t >= count) break;
			share(slice, lane, t);
			barrier();
			if (finishes) {
				uint some = min(SLICES, blocks - first), before = sums[t];
				EXACT(sums[t] = addedAll(first, some, id, t0 + t, m, before));
			}
			barrier();
		}
	}
	if (!finishes) return;
	for (uint t = 0; t < count; t++) store(t0 + t, m, sums[t]);
}
