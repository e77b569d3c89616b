#version 450
// Top (runtime/device): the largest elements of the parts of rows. A workgroup finds those of a part digit by digit, from
// the highest: of a key whose order is that of the values, and then of the place in the part. Their order comes last.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Z { uint z[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint pairs[]; };
layout(push_constant) uniform Constants { uint n, len, most, paired; };
const uint PART = 4096, MOST = 64, EACH = PART / 256, DIGITS = 6, OF_KEY = 4;
shared uint larger[256]; // elements whose digit is this one or a larger one
shared uint chosen, rest; // digit of the last element to take, and how many with it are still to be taken
shared uint found, keys[MOST], places[MOST];

// key is larger for a larger value, and 0 for a NaN.
uint key(uint v) {
	if ((v & 0x7fffffffu) > 0x7f800000u) return 0u;
	if (v == 0x80000000u) v = 0u;
	return (v >> 31) != 0u ? ~v : v | 0x80000000u;
}

// digit is larger for an element that comes first.
uint digit(uint key, uint place, uint d) {
	if (d < OF_KEY) return (key >> (24 - 8 * d)) & 255u;
	return (~place >> (8 * (DIGITS - 1 - d))) & 255u;
}

void main() {
	uint id = gl_LocalInvocationID.x, row = gl_WorkGroupID.y * len, first = gl_WorkGroupID.x * PART;
	uint count = min(PART, len - first), want = min(most, count);
	uint own[EACH], open = 0u, taken = 0u; // bit j is of the element at place 256·j + id
	for (uint j = 0; j < EACH; j++) {
		uint place = 256 * j + id;
		if (place >= count) continue;
		own[j] = key(z[(row + first + place) << paired]);
		open |= 1u << j;
	}
	for (uint d = 0; d < DIGITS; d++) {
		larger[id] = 0u;
		barrier();
		for (uint j = 0; j < EACH; j++)
			if ((open >> j & 1u) != 0u) atomicAdd(larger[digit(own[j], 256 * j + id, d)], 1u);
		barrier();
		for (uint s = 1; s < 256; s <<= 1) {
			uint more = id + s < 256 ? larger[id + s] : 0u;
			barrier();
			larger[id] += more;
			barrier();
		}
		uint above = id < 255 ? larger[id + 1] : 0u;
		if (larger[id] >= want && above < want) {
			chosen = id;
			rest = want - above;
		}
		barrier();
		want = rest;
		for (uint j = 0; j < EACH; j++) {
			if ((open >> j & 1u) == 0u) continue;
			uint has = digit(own[j], 256 * j + id, d);
			if (has > chosen) taken |= 1u << j;
			if (has != chosen) open &= ~(1u << j);
		}
	}
	taken |= open; // the last one
	if (id == 0) found = 0u;
	barrier();
	for (uint j = 0; j < EACH; j++) {
		if ((taken >> j & 1u) == 0u) continue;
		uint i = atomicAdd(found, 1u);
		keys[i] = own[j];
		places[i] = 256 * j + id;
	}
	barrier();
	if (id >= most) return;
	uint rank = id, value = 0xff800000u, name = ~0u; // of what there are too few elements for
	if (id < found) {
		rank = 0u;
		for (uint i = 0; i < found; i++)
			if (keys[i] > keys[id] || keys[i] == keys[id] && places[i] < places[id]) rank++;
		uint at = row + first + places[id];
		value = z[at << paired];
		name = paired != 0 ? z[2 * at + 1] : first + places[id];
	}
	uint to = 2 * ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * most + rank);
	pairs[to] = value;
	pairs[to + 1] = name;
}
