package pack

// translation maps bytes to bytes. The assembly knows its fields by their offsets.
type translation struct {
	table [32]uint8 // of first, first+1 …; with the sign bit turned, so that 0 stands for nothing
	first uint8
}

// unusedByte is the byte of unused: no code and no digit that goes through a translation.
const unusedByte = uint8(0x80)

// newTranslations makes the translations of a code table, there and back. They are nil where values or digits are further
// apart than a translation reaches.
func newTranslations(c *code) (encoding, decoding *translation) {
	values := c.ascending()
	if len(c.values) > 32 || len(values) == 0 || int(values[len(values)-1])-int(values[0]) > 31 {
		return nil, nil
	}
	encoding, decoding = &translation{first: uint8(values[0])}, &translation{}
	for _, v := range values {
		digit := c.digits[uint8(v)]
		encoding.table[uint8(v)-encoding.first] = digit ^ unusedByte
		decoding.table[digit] = uint8(v) ^ unusedByte
	}
	return encoding, decoding
}

// apply maps as many bytes as fill whole steps, and reports their number and whether something stands for each.
func (t *translation) apply(dst, src []byte) (n int, ok bool) {
	if t == nil || !translates {
		return 0, true
	}
	n = len(src) &^ 31
	return n, n == 0 || translateAVX2(&dst[0], &src[0], n, t)
}
