package export

import (
	"encoding/binary"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// factors are the scales and minima of a matrix as they are stored in types F16I8 and F16I8/8 (FORMAT F9); none in
// others.
type factors struct {
	how           packed.Scale
	first, added  []byte // scales; minima, or nil
	width         int    // bytes of a row; 0 = none
	least, lowest int8   // the least integers of scales and of minima
	most, highest int8   // the largest
}

// factorsOf returns the factors of all matrices of an entry.
func factorsOf(f *packed.File, e *packed.Entry) (x factors, err error) {
	if !e.Scale.DType.Factored() {
		return x, nil
	}
	x = factors{how: e.Scale}
	list := []struct {
		suffix      string
		to          *[]byte
		least, most *int8
	}{{packed.ScaleSuffix, &x.first, &x.least, &x.most}, {packed.MinSuffix, &x.added, &x.lowest, &x.highest}}
	if !e.Min {
		list = list[:1]
	}
	for _, l := range list {
		t, err := f.Tensor(e.Name + l.suffix)
		if err != nil {
			return x, err
		}
		*l.to = t.Data
		for data := t.Data; len(data) > 0; {
			var integers []int8
			_, integers, data = x.how.Factors(data)
			for _, i := range integers {
				*l.least, *l.most = min(*l.least, i), max(*l.most, i)
			}
		}
	}
	x.width = len(x.first) / e.Rows()
	return x, nil
}

// changed returns the factors with both tensors changed.
func (x factors) changed(change func([]byte) []byte) factors {
	if x.width > 0 {
		x.first = change(x.first)
	}
	if x.added != nil {
		x.added = change(x.added)
	}
	return x
}

// kQuant is a K-quant or IQ4_XS, a type with blocks of packed.FactorColumns columns: its codes, and ranges of its
// integers.
type kQuant struct {
	kind           gguf.Type
	alphabet       pack.Alphabet
	group          int
	minima         bool
	least, most    int8 // of the integers of scales; those of minima are from −most to 0
	put            func(b []byte, q []byte, scales, minima []int8)
	scale, minimum int // places of the float16 numbers
}

// kQuants: codes as they come out of a GGUF (formats/gguf), q without the lowest.
var kQuants = map[gguf.Type]kQuant{
	gguf.Q2_K: {gguf.Q2_K, pack.Int2, 16, true, 0, 15, putQ2K, 80, 82},
	gguf.Q3_K: {gguf.Q3_K, pack.Int3, 16, false, -32, 31, putQ3K, 108, 0},
	gguf.Q4_K: {gguf.Q4_K, pack.Int4, 32, true, 0, 63, putQ4K, 0, 2},
	gguf.Q5_K: {gguf.Q5_K, pack.Int5, 32, true, 0, 63, putQ5K, 0, 2},
	gguf.Q6_K: {gguf.Q6_K, pack.Int6, 16, false, -128, 127, putQ6K, 208, 0},

	gguf.IQ4_XS: {gguf.IQ4_XS, pack.IQ4NL, 32, false, -32, 31, putIQ4XS, 0, 0},
}

func (k kQuant) blockType() blockType {
	return blockType{k.group, packed.FactorColumns, func(a pack.Alphabet, u units, _ bool) bool {
		return u.how.DType == packed.ScaleF16I8 && u.width > 0 && u.group == k.group &&
			a.Name == k.alphabet.Name && (u.minima != nil) == k.minima &&
			u.least >= k.least && u.most <= k.most && u.lowest >= -k.most && u.highest <= 0
	}, k.encode}
}

// encode writes the blocks of a matrix, whose factors are copied.
func (k kQuant) encode(dst []byte, m *pack.Matrix, u units) error {
	first, added, q := u.first, u.added, make([]byte, packed.FactorColumns)
	size := int(k.kind.RowSize(packed.FactorColumns))
	for codes := m.Codes; len(codes) > 0; codes, dst = codes[len(q):], dst[size:] {
		for i := range q {
			q[i] = byte(codes[i] - k.alphabet.Values[0])
		}
		b, minima := dst[:size], []int8(nil)
		clear(b)
		half, scales, rest := u.how.Factors(first)
		if first = rest; k.minima {
			var minimum float32
			minimum, minima, added = u.how.Factors(added)
			binary.LittleEndian.PutUint16(b[k.minimum:], float16.Narrow(minimum))
		}
		binary.LittleEndian.PutUint16(b[k.scale:], float16.Narrow(half))
		k.put(b, q, scales, minima)
	}
	return nil
}

// putBits puts fields of some bits into bytes: each run of n bytes holds the fields of 8/bits runs of n weights.
func putBits(b, q []byte, n, bits int, field func(q byte) byte) {
	per := 8 / bits
	for w, v := range q {
		b[w/(n*per)*n+w%n] |= field(v) << (w % (n * per) / n * bits)
	}
}

func lowTwo(q byte) byte  { return q & 3 }
func lowFour(q byte) byte { return q & 15 }

func putQ2K(b, q []byte, scales, minima []int8) {
	for g, s := range scales {
		b[g] = byte(s) | byte(-minima[g])<<4
	}
	putBits(b[16:80], q, 32, 2, lowTwo)
}

func putQ3K(b, q []byte, scales, _ []int8) {
	putBits(b[:32], q, 32, 1, func(q byte) byte { return q >> 2 })
	putBits(b[32:96], q, 32, 2, lowTwo)
	for g, s := range scales {
		v := byte(s + 32)
		b[96+g%8] |= v & 15 << (g / 8 * 4)
		b[104+g%4] |= v >> 4 << (g / 4 * 2)
	}
}

// putSixBits writes eight scales and eight minima of six bits: the upper two bits of the last four of each stand above
// the first four.
func putSixBits(b []byte, scales, minima []int8) {
	for g := range 4 {
		s, m := byte(scales[g+4]), byte(-minima[g+4])
		b[g], b[g+4] = byte(scales[g])|s>>4<<6, byte(-minima[g])|m>>4<<6
		b[g+8] = s&15 | m<<4
	}
}

func putQ4K(b, q []byte, scales, minima []int8) {
	putSixBits(b[4:16], scales, minima)
	putBits(b[16:], q, 32, 4, lowFour)
}

func putQ5K(b, q []byte, scales, minima []int8) {
	putSixBits(b[4:16], scales, minima)
	putBits(b[16:48], q, 32, 1, func(q byte) byte { return q >> 4 })
	putBits(b[48:], q, 32, 4, lowFour)
}

func putIQ4XS(b, q []byte, scales, _ []int8) {
	high := uint16(0)
	for g, s := range scales {
		v := byte(s + 32)
		b[4+g/2] |= v & 15 << (g % 2 * 4)
		high |= uint16(v>>4) << (2 * g)
	}
	binary.LittleEndian.PutUint16(b[2:], high)
	putBits(b[8:], q, 16, 4, func(q byte) byte { return nibbleIQ4[q+uint8(pack.IQ4NL.Values[0])] })
}

func putQ6K(b, q []byte, scales, _ []int8) {
	putBits(b[:128], q, 64, 4, lowFour)
	putBits(b[128:192], q, 32, 2, func(q byte) byte { return q >> 4 })
	copy(b[192:208], packed.CodeBytes(scales))
}
