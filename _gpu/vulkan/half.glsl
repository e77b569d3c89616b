// binary16 in integers: a device may flush its subnormals.

// half16 widens a binary16.
uint half16(uint h) {
	uint sign = (h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
	if (e == 31u) return sign | INF | m << 13;
	if (e != 0u) return sign | (e + 112u) << 23 | m << 13;
	if (m == 0u) return sign;
	int s = findMSB(m);
	return sign | uint(s + 103) << 23 | ((m << (23 - s)) & 0x7fffffu);
}
