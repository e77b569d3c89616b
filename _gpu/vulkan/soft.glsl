// float32 in 32-bit integers: every operation rounded once, to nearest even, subnormals kept (NUMERICS N1). Values are bit
// patterns. This needs no promise of a driver.
const uint QNAN = 0x7fc00000u, INF = 0x7f800000u, SIGN = 0x80000000u, ONE = 0x3f800000u;

bool isNaN(uint a) { return (a & ~SIGN) > INF; }

// split gives a mantissa of 24 bits, the highest one set, and e with |a| = m·2^e, for finite a other than 0.
void split(uint a, out uint m, out int e) {
	e = int((a >> 23) & 255u);
	m = a & 0x7fffffu;
	if (e == 0) {
		int s = 23 - findMSB(m);
		m <<= s;
		e = 1 - s;
	} else {
		m |= 0x800000u;
	}
	e -= 150;
}

// joined rounds m·2^e; bit 31 of m is set, and bit 0 stands for everything below.
uint joined(uint sign, uint m, int e) {
	int be = e + 158; // biased exponent
	int drop = be > 0 ? 8 : 9 - be;
	uint keep = 0u;
	if (drop < 32) {
		uint rest = m & ((1u << drop) - 1u), tie = 1u << (drop - 1);
		keep = m >> drop;
		if (rest > tie || (rest == tie && (keep & 1u) != 0u)) keep++;
	} else if (drop == 32 && m > SIGN) {
		keep = 1u;
	}
	uint r = be > 0 ? keep + (uint(be - 1) << 23) : keep;
	return sign | (be >= 255 || r >= INF ? INF : r);
}

// shifted shifts the 64-bit number (h, l) right; bits that fall off set the lowest one.
void shifted(inout uint h, inout uint l, int n) {
	uint lost = 0u;
	if (n == 0) return;
	if (n < 32) {
		lost = l << (32 - n);
		l = (h << (32 - n)) | (l >> n);
		h >>= n;
	} else if (n < 64) {
		lost = l | (n == 32 ? 0u : h << (64 - n));
		l = n == 32 ? h : h >> (n - 32);
		h = 0u;
	} else {
		lost = h | l;
		h = l = 0u;
	}
	l |= uint(lost != 0u);
}

// softFMA is a·b + c, rounded once.
uint softFMA(uint a, uint b, uint c) {
	uint aa = a & ~SIGN, ab = b & ~SIGN, ac = c & ~SIGN, sp = (a ^ b) & SIGN, sc = c & SIGN;
	if (aa >= INF || ab >= INF || ac >= INF) {
		if (aa > INF || ab > INF || ac > INF) return QNAN;
		if (aa == INF || ab == INF) {
			bool none = aa == 0u || ab == 0u || (ac == INF && sc != sp);
			return none ? QNAN : sp | INF;
		}
		return c;
	}
	if (aa == 0u || ab == 0u) return ac == 0u ? sp & sc : c;
	uint ma, mb, ph, pl, sign = sp;
	int ea, eb;
	split(a, ma, ea);
	split(b, mb, eb);
	umulExtended(ma << 7, mb << 7, ph, pl); // the highest bit is 60 or 61
	int e = ea + eb - 14;
	if (ac != 0u) {
		uint mc, ch, cl = 0u;
		int ec;
		split(c, mc, ec);
		ch = mc << 6; // the highest bit is 61
		ec -= 38;
		int d = e - ec;
		if (d > 0) {
			shifted(ch, cl, d);
		} else if (d < 0) {
			shifted(ph, pl, -d);
			e = ec;
		}
		if (sc == sp) {
			uint carry;
			pl = uaddCarry(pl, cl, carry);
			ph += ch + carry;
		} else {
			if (ph < ch || (ph == ch && pl < cl)) {
				uint t = ph;
				ph = ch;
				ch = t;
				t = pl;
				pl = cl;
				cl = t;
				sign = sc;
			}
			uint borrow;
			pl = usubBorrow(pl, cl, borrow);
			ph -= ch + borrow;
			if ((ph | pl) == 0u) return 0u;
		}
	}
	if (ph == 0u) {
		int n = 31 - findMSB(pl);
		return joined(sign, pl << n, e - n);
	}
	int n = 31 - findMSB(ph);
	uint m = n == 0 ? ph : (ph << n) | (pl >> (32 - n));
	m |= uint((pl << n) != 0u);
	return joined(sign, m, e + 32 - n);
}

uint softMul(uint a, uint b) { return softFMA(a, b, (a ^ b) & SIGN); }

uint softAdd(uint a, uint b) { return softFMA(a, ONE, b); }

uint softDiv(uint a, uint b) {
	uint aa = a & ~SIGN, ab = b & ~SIGN, s = (a ^ b) & SIGN;
	if (aa > INF || ab > INF || (aa == INF && ab == INF) || (aa == 0u && ab == 0u)) return QNAN;
	if (aa == INF || ab == 0u) return s | INF;
	if (aa == 0u || ab == INF) return s;
	uint ma, mb, q = 0u;
	int ea, eb;
	split(a, ma, ea);
	split(b, mb, eb);
	int e = ea - eb;
	if (ma < mb) {
		ma <<= 1;
		e--;
	}
	for (int i = 0; i < 27; i++) { // ma/mb lies in 1 … 2
		q <<= 1;
		if (ma >= mb) {
			ma -= mb;
			q |= 1u;
		}
		ma <<= 1;
	}
	return joined(s, (q << 5) | uint(ma != 0u), e - 31);
}

uint softSqrt(uint a) {
	uint aa = a & ~SIGN;
	if (aa == 0u) return a;
	if (aa > INF || (a & SIGN) != 0u) return QNAN;
	if (aa == INF) return INF;
	uint m, root = 0u, rem = 0u;
	int e;
	split(a, m, e);
	if ((e & 1) != 0) {
		m <<= 1;
		e--;
	}
	uint bits = m << 6; // the highest 26 bits of m·2^28
	for (int i = 0; i < 27; i++) {
		rem = (rem << 2) | (bits >> 30);
		bits <<= 2;
		root <<= 1;
		uint t = (root << 1) | 1u;
		if (rem >= t) {
			rem -= t;
			root |= 1u;
		}
	}
	int n = 31 - findMSB(root);
	return joined(0u, (root << n) | uint(rem != 0u), e / 2 - 14 - n);
}
