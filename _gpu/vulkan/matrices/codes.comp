#version 450
// Codes and, with OFFSET, OffsetCodes (runtime/device) of many tokens, by cooperative matrices of int8 (N15): the sums
// are of integers, so exact in any order. A workgroup of four subgroups computes ROWS rows for TOKENS tokens, and each
// subgroup a quarter of the rows.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#include "../soft.glsl"
#include "../exact.glsl"
layout(constant_id = 4) const uint BITS = 2;
layout(constant_id = 5) const uint TERNARY = 1;
layout(constant_id = 6) const uint INVOCATIONS = 128; // four subgroups
layout(constant_id = 7) const uint M = 16;            // matrices are M×K and K×N
layout(constant_id = 8) const uint N = 16;
layout(constant_id = 9) const uint K = 16;
layout(local_size_x_id = 6) in;
#include "../codes.glsl"
const uint ROWS = 64, TOKENS = 32, QUADS = 16; // of a workgroup: quads of columns at once
const uint STRIDE = QUADS + 4;                 // words of a row in shared memory: rows start in different banks
const uint DOWN = ROWS / 4 / M, ACROSS = TOKENS / N;
shared int weightTile[ROWS * STRIDE], tokenTile[TOKENS * STRIDE], part[TOKENS * ROWS];

#define MATRIX(type, height, width, use) coopmat<type, gl_ScopeSubgroup, height, width, use>
MATRIX(int, M, N, gl_MatrixUseAccumulator) acc[DOWN * ACROSS];

// codesOf are four codes of row r of a word. Those of fewer than 8 bits are computed side by side: factor times a digit
// is at most 255.
int codesOf(int v, uint r) {
	if (BITS == 8) return v;
	const int ones = 0x01010101;
	int digits = (v >> int(BITS * r)) & (((1 << int(BITS)) - 1) * ones);
	if (TERNARY != 0) return (digits & ones) | (((digits >> 1) & ones) * 255);
	int scaled = digits * factor, by = (offset & 255) * ones;
	return ((scaled & 0x7f7f7f7f) + (by & 0x7f7f7f7f)) ^ ((scaled ^ by) & 0x80808080);
}

// stage loads the codes of some quads of columns, and the activations: 0 from end on, whatever the codes are there, and
// beyond the last token.
void stage(uint id, uint row0, uint t0, uint first, uint end) {
	uint height = lanes * 8 / BITS, quads = (columns + 3) / 4;
	for (uint i = id; i < ROWS * BITS / 8 * QUADS; i += INVOCATIONS) {
		uint lane = i % lanes, quad = i / lanes % QUADS, panel = i / (lanes * QUADS);
		bool inside = first + quad < quads && row0 + panel * height < rows;
		int v = inside ? weights[((row0 / height + panel) * quads + first + quad) * lanes + lane] : 0;
		for (uint r = 0; r < 8 / BITS; r++) {
			weightTile[(panel * height + r * lanes + lane) * STRIDE + quad] = codesOf(v, r);
		}
	}
	for (uint i = id; i < TOKENS * QUADS; i += INVOCATIONS) {
		uint t = i / QUADS, quad = i % QUADS;
		bool inside = first + quad < end && t0 + t < n;
		tokenTile[t * STRIDE + quad] = inside ? q[(t0 + t) * qwords + first + quad] : 0;
	}
}

// multiply adds the products of what was loaded: of the first quads.
void multiply(uint row, uint quads) {
	MATRIX(int8_t, M, K, gl_MatrixUseA) a;
	MATRIX(int8_t, K, N, gl_MatrixUseB) b;
	for (uint k = 0; k < min(quads, QUADS); k += K / 4) {
		for (uint i = 0; i < DOWN; i++) {
			coopMatLoad(a, weightTile, (row + i * M) * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
			for (uint j = 0; j < ACROSS; j++) {
				coopMatLoad(b, tokenTile, j * N * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
				acc[i * ACROSS + j] = coopMatMulAdd(a, b, acc[i * ACROSS + j]);
			}
		}
	}
}

void clearSums() {
	for (uint i = 0; i < DOWN * ACROSS; i++) acc[i] = MATRIX(int, M, N, gl_MatrixUseAccumulator)(0);
}

// share puts the sums where all invocations see them.
void share(uint row) {
	for (uint i = 0; i < DOWN; i++) {
		for (uint j = 0; j < ACROSS; j++) {
			coopMatStore(acc[i * ACROSS + j], part, j * N * ROWS + row + i * M, ROWS,
				gl_CooperativeMatrixLayoutColumnMajor);
		}
	}
}

void main() {
	uint id = gl_LocalInvocationIndex, row0 = gl_WorkGroupID.x * ROWS, t0 = gl_WorkGroupID.y * TOKENS;
	uint row = gl_SubgroupID * (ROWS / 4);
	uint block = min(group, actGroup), blocks = (columns + block - 1) / block, most = (block + 3) / 4;
	uint sums[ROWS * TOKENS / INVOCATIONS]; // of the elements id, id + INVOCATIONS, …
	for (uint i = 0; i < sums.length(); i++) sums[i] = 0u;
	for (uint b = 0; b < blocks; b++) {
		clearSums();
		uint end = min((columns + 3) / 4, (b + 1) * most);
		for (uint first = b * most; first < end; first += QUADS) {
			barrier();
			stage(id, row0, t0, first, end);
			barrier();
			multiply(row, end - first);
		}
		share(row);
		barrier();
		for (uint i = 0; i < sums.length(); i++) {
			uint at = id + i * INVOCATIONS, m = row0 + at % ROWS, t = t0 + at / ROWS, before = sums[i];
			if (m >= rows || t >= n) continue;
			if (grouped == 0 && actGrouped == 0) sums[i] = real(withoutZero(part[at], t, m, 0, 0));
			else EXACT(sums[i] = added(part[at], b, t, m, before));
		}
	}
	for (uint i = 0; i < sums.length(); i++) {
		uint at = id + i * INVOCATIONS, m = row0 + at % ROWS, t = t0 + at / ROWS;
		if (m < rows && t < n) store(t, m, sums[i]);
	}
}
