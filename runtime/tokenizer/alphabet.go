package tokenizer

// Byte-level vocabularies are written in an alphabet of 256 printable characters, one per byte (GPT-2): printable
// Latin-1 characters stand for themselves, the other 68 bytes for U+0100 … U+0143 in ascending order. The package
// undoes this once, when a vocabulary is loaded, and works on bytes from then on.
var (
	byteRune [256]rune
	runeByte [0x144]int16 // −1: no byte has this character
)

func init() {
	for i := range runeByte {
		runeByte[i] = -1
	}
	next := rune(0x100)
	for b := range byteRune {
		switch {
		case b >= '!' && b <= '~', b >= 0xa1 && b <= 0xac, b >= 0xae:
			byteRune[b] = rune(b)
		default:
			byteRune[b] = next
			next++
		}
		runeByte[byteRune[b]] = int16(b)
	}
}

// toBytes appends the bytes that the characters of a byte-level token stand for. It reports false when the token holds
// a character outside the alphabet; then it is not a byte-level token (but a special token, for example).
func toBytes(dst, token []byte) ([]byte, bool) {
	for i := 0; i < len(token); {
		c := token[i]
		switch {
		case c >= '!' && c <= '~':
			dst = append(dst, c)
			i++
			continue
		case c < 0xc2 || c > 0xc5 || i+1 == len(token): // U+0080 … U+017F are two bytes
			return dst, false
		}
		r := int(c&0x1f)<<6 | int(token[i+1]&0x3f)
		if r >= len(runeByte) || runeByte[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(runeByte[r]))
		i += 2
	}
	return dst, true
}

// toRunes writes every byte of s as its character.
func toRunes(s string) string {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = byteRune[s[i]]
	}
	return string(out)
}
