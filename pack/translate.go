package pack

// translation maps bytes to bytes. The assembly knows its fields by their offsets.
type translation struct {
	table [32]uint8 // of first, first+1 …; with the sign bit turned, so that 0 stands for nothing
	first uint8
}

// unusedByte is the byte of unused: no code and no digit that goes through a translation.
const unusedByte = uint8(0x80)

// newTranslations makes the translations of a code table, there and back. One is nil where the bytes that it starts
// from are further apart than it reaches.
func newTranslations(c *code) (encoding, decoding *translation) {
	values := c.ascending()
	if len(c.values) > 32 || len(values) == 0 {
		return nil, nil
	}
	decoding = &translation{}
	for _, v := range values {
		decoding.table[c.digits[uint8(v)]] = uint8(v) ^ unusedByte
	}
	if int(values[len(values)-1])-int(values[0]) > 31 {
		return nil, decoding
	}
	encoding = &translation{first: uint8(values[0])}
	for _, v := range values {
		encoding.table[uint8(v)-encoding.first] = c.digits[uint8(v)] ^ unusedByte
	}
	return encoding, decoding
}

// unfoldLanes decodes the first columns of whole rows of k codes that share lanes of 32-bit words, and returns the
// number of decoded columns and whether all digits stand for values.
func (c *code) unfoldLanes(codes []int8, k, lanes int, src []byte) (columns int, ok bool) {
	columns = k &^ 31
	if columns == 0 || c.decoding == nil || !translates {
		return 0, true
	}
	for lane := 0; lane < lanes; lane += 4 {
		dst, words := &codes[lane*k], &src[4*lane]
		switch apart := lanes * k; c.bits() {
		case 1:
			ok = unfold1AVX2(dst, k, apart, words, 4*lanes, columns/32, c.decoding)
		case 2:
			ok = unfold2AVX2(dst, k, apart, words, 4*lanes, columns/32, c.decoding)
		case 4:
			ok = unfold4AVX2(dst, k, apart, words, 4*lanes, columns/32, c.decoding)
		default:
			return 0, true
		}
		if !ok {
			return columns, false
		}
	}
	return columns, true
}

// apply maps as many bytes as fill whole steps, and returns their number and whether each has a translation.
func (t *translation) apply(dst, src []byte) (n int, ok bool) {
	if t == nil || !translates {
		return 0, true
	}
	n = len(src) &^ 31
	return n, n == 0 || translateAVX2(&dst[0], &src[0], n, t)
}
