// The KV cache (N27, N82). A row has the elements of a head at a position, 2^CACHE of them in a word, and behind codes
// their scale. CELL(i) is word i of the buffer; dim elements are those of a head.
#include "half.glsl"
layout(constant_id = 4) const uint CACHE = 0;
const uint F32 = 0, F16 = 1, I8 = 2, I4 = 3;
const bool CODED = CACHE >= I8;

uint codeWords() { return (dim + (1u << CACHE) - 1) >> CACHE; }
uint rowWords() { return codeWords() + uint(CODED); }

// queryWords is the size of a query: floats, or int8 codes with their scale where keys have codes.
uint queryCodes() { return (dim + 3) / 4; }
uint queryWords() { return CODED ? queryCodes() + 1 : dim; }

// magnitude is one of the eight of N82.
uint magnitude(uint n) { return (n < 4 ? 0x2b1e1206u : 0x795d4939u) >> (8 * (n & 3u)) & 255u; }

#ifdef CELL
// code is element i of a row of codes.
int code(uint row, uint i) {
	if (CACHE == I8) return bitfieldExtract(int(CELL(row + i / 4)), int(8 * (i & 3u)), 8);
	uint n = CELL(row + i / 8) >> (4 * (i & 7u));
	int v = int(magnitude(n & 7u));
	return (n & 8u) != 0u ? -v : v;
}

// element is element i of a row, without the scale of its codes.
uint element(uint row, uint i) {
	if (CACHE == F32) return CELL(row + i);
	if (CACHE == F16) return half16((CELL(row + i / 2) >> (16 * (i & 1u))) & 0xffffu);
	return real(code(row, i));
}

uint scaleOf(uint row) { return CELL(row + codeWords()); }
#endif

#ifdef ELEMENT
// transform is the Walsh-Hadamard transform of each block of the elements in shared memory, and returns 1/B.
uint transform(uint id, uint threads) {
	uint block = dim & (~dim + 1u);
	for (uint s = 1; s < block; s *= 2) {
		barrier();
		for (uint p = id; p < dim / 2; p += threads) {
			uint i = p / s * 2 * s + p % s, a = ELEMENT(i), b = ELEMENT(i + s);
			ELEMENT(i) = add(a, b);
			ELEMENT(i + s) = sub(a, b);
		}
	}
	barrier();
	return ONE - (uint(findLSB(block)) << 23);
}
#endif
