// What the shaders of Codes and OffsetCodes share: buffers, constants, and what comes after the sums of integers. With
// OFFSET it is OffsetCodes.
layout(set = 0, binding = 0) readonly buffer Weights { int weights[]; };
layout(set = 0, binding = 1) readonly buffer Scales { uint scales[]; };
layout(set = 0, binding = 2) readonly buffer Q { int q[]; };
layout(set = 0, binding = 3) readonly buffer D { uint d[]; };
layout(set = 0, binding = 4) readonly buffer Biases { uint biases[]; };
layout(set = 0, binding = 5) buffer Y { uint y[]; };
#ifdef OFFSET
layout(set = 0, binding = 6) readonly buffer Zeros { int zeros[]; };
layout(set = 0, binding = 7) readonly buffer Sums { int blockSums[]; };
layout(set = 0, binding = 8) readonly buffer Terms { uint terms[]; };
#endif
layout(push_constant) uniform Constants {
	uint n, rows, columns, qwords, ldy, at, lanes, bits;
	int factor, offset;
	uint ternary, perRow, group, grouped, actGroup, actGrouped, bias, accumulate, residualScale;
#ifdef OFFSET
	uint hasZeros;
	int zero;
	uint hasTerms;
#endif
};

// finished is an output: bias, scale and residual.
uint finished(uint v, uint m, uint before) {
	if (bias != 0) v = add(v, biases[m]);
	if (accumulate == 0) return v;
	return add(before, residualScale != 0 ? mul(v, residualScale) : v);
}

// scaled is a sum times the scales that are not those of groups.
uint scaled(uint v, uint t, uint m) {
	if (grouped == 0) v = mul(v, scales[perRow == 0 ? 0 : m]);
	if (actGrouped == 0) v = mul(v, d[t]);
	return v;
}

// withoutZero takes the zero point of a row from the sum of block b, at column k.
int withoutZero(int sum, uint t, uint m, uint b, uint k) {
#ifdef OFFSET
	uint block = min(group, actGroup), blocks = (columns + block - 1) / block, unit = m * perRow + k / group;
	int by = hasZeros != 0 ? bitfieldExtract(zeros[unit / 4], int(8 * (unit & 3u)), 8) : zero;
	sum -= by * blockSums[t * blocks + b];
#endif
	return sum;
}

// outputOf is what is stored, given the sum of the blocks and where it goes.
uint outputOf(uint v, uint t, uint m, uint to, uint before) {
	v = scaled(v, t, m);
#ifdef OFFSET
	if (hasTerms != 0) v = add(v, terms[to]);
#endif
	return finished(v, m, before);
}

// store stores an output.
void store(uint t, uint m, uint v) {
	uint to = t * ldy + at + m, before = accumulate != 0 ? y[to] : 0u, r;
	EXACT(r = outputOf(v, t, m, to, before));
	y[to] = r;
}

// added adds the product of a block of columns to v.
uint added(int sum, uint b, uint t, uint m, uint v) {
	uint block = min(group, actGroup), groups = (columns + actGroup - 1) / actGroup;
	uint k = b * block, a = real(withoutZero(sum, t, m, b, k)), da = d[t * groups + k / actGroup];
	if (grouped != 0 && actGrouped != 0) a = mul(a, da);
	return fused(a, grouped != 0 ? scales[m * perRow + k / group] : da, v);
}
