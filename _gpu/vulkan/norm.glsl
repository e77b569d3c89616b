// Reductions (N5, N6) and norms (N13, N40) of a vector by one workgroup of THREADS. VECTOR(i) is its element i, in a buffer.
// Each invocation has elements of its own, four at a time, so that none reads from a buffer what another one wrote.
const uint THREADS = 256, STAGE = 1024;
#define EACH(i, n) for (uint w = id; 4 * w < n; w += THREADS) for (uint i = 4 * w; i < min(4 * w + 4, n); i++)
shared uint staged[STAGE];
shared uint lanes[16];
shared uint one;

// tree adds the lanes.
void tree(uint id) {
	barrier();
	for (uint s = 8; s > 0; s >>= 1) {
		if (id < s) lanes[id] = add(lanes[id], lanes[id + s]);
		barrier();
	}
}

// lane adds staged values, or their squares, to a lane.
uint lane(uint id, uint n, bool squares, uint acc) {
	uint i = id;
	for (; MANY && i + 48 < n; i += 64) { // four loads at once: a sum waits for nothing but the sum before it
		uint v[4];
		for (uint j = 0; j < 4; j++) v[j] = staged[i + 16 * j];
		for (uint j = 0; j < 4; j++) acc = squares ? fused(v[j], v[j], acc) : add(acc, v[j]);
	}
	for (; i < n; i += 16) acc = squares ? fused(staged[i], staged[i], acc) : add(acc, staged[i]);
	return acc;
}

#ifdef VECTOR
// total is the sum of the vector, or of its squares.
uint total(uint id, uint base, uint n, bool squares) {
	uint acc = 0u;
	for (uint at = 0; at < n; at += STAGE) {
		uint count = min(STAGE, n - at);
		barrier();
		for (uint i = 4 * id; i < min(4 * id + 4, count); i++) staged[i] = VECTOR(base + at + i);
		barrier();
		if (id < 16) {
			uint before = acc;
			EXACT(acc = lane(id, count, squares, before));
		}
	}
	if (id < 16) lanes[id] = acc;
	tree(id);
	return lanes[0];
}

// factor is what a norm multiplies the vector by; a LayerNorm, kind 2, subtracts the mean first.
uint factor(uint id, uint base, uint n, uint kind, uint eps, out bool good) {
	uint count = real(int(n));
	if (kind == 2) {
		uint mean = divide(total(id, base, n, false), count);
		EACH(i, n) {
			uint v = VECTOR(base + i);
			EXACT(VECTOR(base + i) = sub(v, mean));
		}
	}
	uint square = divide(total(id, base, n, true), count);
	good = finite(square);
	if (id == 0) one = divide(ONE, softSqrt(add(square, eps)));
	barrier();
	return one;
}
#endif
