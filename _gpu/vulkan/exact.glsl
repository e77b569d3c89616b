// The float unit where the probe has found it exact, integers elsewhere. Values are bit patterns.
//
// GUARD 0: additions and products of the device are exact. GUARD 1: they are exact where operands are normal or zero and
// the result is one of them or lies above the smallest binade, below which a device may flush. GUARD 2: integers alone.
//
// What a guard does not accept is rare. So EXACT(statement) computes by the float unit alone, and once more with integers
// in place of what was not accepted, if there was such a thing. The statement does not read what it writes.
// FUSED: fma() of the device is exact as far as GUARD says; else integers. DIVIDES: so is its division; else the quotient is
// mended. BAD replaces the float unit by one that flushes subnormals and divides up to 2 units wrong, for tests.
layout(constant_id = 0) const uint GUARD = 2;
layout(constant_id = 1) const uint FUSED = 0;
layout(constant_id = 2) const uint DIVIDES = 0;
layout(constant_id = 3) const uint BAD = 0;

bool normal(uint a) { return ((a >> 23) & 255u) - 1u < 254u; } // neither zero, subnormal, infinite nor a NaN
bool plain(uint a) { return normal(a) || (a << 1) == 0u; }
bool safe(uint a) { return ((a >> 23) & 255u) - 2u < 253u; }
uint flushed(uint a) { return ((a >> 23) & 255u) == 0u ? a & SIGN : a; }

bool zero(uint a) { return (a << 1) == 0u; }

bool careful = true, doubt = false;
#define EXACT(statement) { \
	careful = GUARD != 1; \
	doubt = false; \
	statement; \
	if (GUARD == 1 && doubt) { \
		careful = true; \
		statement; \
	} \
	careful = true; \
}

// MANY says that loops may hold several operations: where they are short, and not whole functions.
#define MANY (FUSED != 0 && (GUARD == 0 || !careful))

uint unitAdd(uint a, uint b) {
	if (BAD != 0) return flushed(softAdd(flushed(a), flushed(b)));
	precise float v = uintBitsToFloat(a) + uintBitsToFloat(b);
	return floatBitsToUint(v);
}

uint unitMul(uint a, uint b) {
	if (BAD != 0) return flushed(softMul(flushed(a), flushed(b)));
	precise float v = uintBitsToFloat(a) * uintBitsToFloat(b);
	return floatBitsToUint(v);
}

uint unitFMA(uint a, uint b, uint c) {
	if (BAD != 0) return flushed(softFMA(flushed(a), flushed(b), flushed(c)));
	precise float v = fma(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(c));
	return floatBitsToUint(v);
}

uint unitDiv(uint a, uint b) {
	if (BAD != 0) {
		uint r = flushed(softDiv(flushed(a), flushed(b)));
		return safe(r) && normal(r + 2u) ? r + (a * 2654435761u >> 29) % 5u - 2u : r;
	}
	precise float v = uintBitsToFloat(a) / uintBitsToFloat(b);
	return floatBitsToUint(v);
}

uint add(uint a, uint b) {
	if (GUARD == 2) return softAdd(a, b);
	uint r = unitAdd(a, b);
	bool good = plain(a) && plain(b) && (safe(r) || zero(a) || zero(b) || (a ^ b) == SIGN);
	if (GUARD == 0 || good) return r;
	if (careful) return softAdd(a, b);
	doubt = true;
	return r;
}

uint sub(uint a, uint b) { return add(a, isNaN(b) ? b : b ^ SIGN); }

uint mul(uint a, uint b) {
	if (GUARD == 2) return softMul(a, b);
	uint r = unitMul(a, b);
	bool good = plain(a) && plain(b) && (safe(r) || zero(a) || zero(b));
	if (GUARD == 0 || good) return r;
	if (careful) return softMul(a, b);
	doubt = true;
	return r;
}

uint fused(uint a, uint b, uint c) {
	if (GUARD == 2 || FUSED == 0) return softFMA(a, b, c);
	uint r = unitFMA(a, b, c);
	bool good = plain(a) && plain(b) && plain(c) && (safe(r) || zero(a) || zero(b));
	if (GUARD == 0 || good) return r;
	if (careful) return softFMA(a, b, c);
	doubt = true;
	return r;
}

// unsure is a quotient of which nothing is known.
uint unsure(uint a, uint b, uint r) {
	if (careful) return softDiv(a, b);
	doubt = true;
	return r;
}

// mended corrects a quotient by its remainder in integers; no quotient of two 24-bit numbers lies half way between two.
uint mended(uint a, uint b) {
	uint r = unitDiv(a, b), ea = (a >> 23) & 255u, eb = (b >> 23) & 255u, er = (r >> 23) & 255u;
	if (!(ea - 1u < 254u && eb - 1u < 252u && er - 2u < 252u)) return unsure(a, b, r);
	uint ma = (a & 0x7fffffu) | 0x800000u, mb = (b & 0x7fffffu) | 0x800000u, mq = (r & 0x7fffffu) | 0x800000u;
	int k = int(ea) - int(eb) + 150 - int(er); // |a/b| in units of the last place of r is (ma << k)/mb
	if (k < 23 || k > 24) return unsure(a, b, r);
	int d = int((ma << k) - mq * mb); // modulo 2^32: right if r is less than 128 units wrong
	uint m = r;
	for (int i = 0; i < 4; i++) {
		if (2 * d > int(mb)) {
			d -= int(mb);
			m++;
		} else if (2 * d < -int(mb)) {
			d += int(mb);
			m--;
		}
	}
	bool right = ((m >> 23) & 255u) == er && (m & 0x7fffffu) != 0u && abs(d) <= int(mb >> 1);
	return right ? m : unsure(a, b, r);
}

uint divide(uint a, uint b) {
	if (GUARD == 2) return softDiv(a, b);
	if (zero(a) && normal(b)) return (a ^ b) & SIGN;
	if (DIVIDES != 0) {
		uint r = unitDiv(a, b);
		if (GUARD == 0) return r;
		if (plain(a) && normal(b) && safe(r)) return r;
	}
	return mended(a, b);
}

uint real(int n) {
	precise float v = float(n);
	return floatBitsToUint(v);
}

// order maps floats to integers of the same order; unorder is its inverse.
int order(uint a) { return int(a) >= 0 ? int(a) : int(a ^ ~SIGN); }
uint unorder(int k) { return k >= 0 ? uint(k) : uint(k) ^ ~SIGN; }

uint smaller(uint a, uint b) { return isNaN(a) ? a : isNaN(b) ? b : unorder(min(order(a), order(b))); }
uint larger(uint a, uint b) { return isNaN(a) ? a : isNaN(b) ? b : unorder(max(order(a), order(b))); }
bool finite(uint a) { return (a & ~SIGN) < INF; }

// exponential is N9.
uint exponential(uint x) {
	if (isNaN(x)) return x;
	if (x > (SIGN | 0x42ae0000u)) return 0u; // below -87
	if ((x & SIGN) == 0u) x = min(x, 0x42b00000u); // 88
	uint t = fused(x, 0x3fb8aa3bu, 0x4b400000u);
	uint n = add(t, 0xcb400000u);
	uint r = fused(n, 0x395e8083u, fused(n, 0xbf318000u, x));
	uint p = fused(0x39506967u, r, 0x3ab743ceu);
	p = fused(p, r, 0x3c088908u);
	p = fused(p, r, 0x3d2aa9c1u);
	p = fused(p, r, 0x3e2aaaaau);
	p = fused(p, r, 0x3f000000u);
	p = fused(p, r, ONE);
	p = fused(p, r, ONE);
	return mul(p, uint(int(t - 0x4b400000u) + 127) << 23); // the low bits of t are n
}

// hyperbolic is tanh of N10.
uint hyperbolic(uint x) {
	return sub(ONE, divide(0x40000000u, add(exponential(mul(0x40000000u, x)), ONE)));
}

uint capped(uint x, uint c) { return mul(c, hyperbolic(divide(x, c))); }

uint silu(uint x) { return mul(x, divide(ONE, add(ONE, exponential(isNaN(x) ? x : x ^ SIGN)))); }
