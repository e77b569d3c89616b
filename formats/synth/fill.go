package synth

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// filler writes any piece of a tensor: dst is the bytes from offset at, a multiple of chunkUnit.
type filler interface {
	fill(dst []byte, at int64)
}

// chunkUnit divides every offset at which a piece may start: a multiple of every filler's block.
const chunkUnit = 64

// table16 and table32 write independent values of a distribution; 12 random bits choose one of its cells.
type table16 struct {
	stream
	values [cells]uint16
}

type table32 struct {
	stream
	values [cells]uint32
}

// newTable returns a filler with values offset + scale·t.
func newTable(s stream, d safetensors.DType, t *shape, offset, scale float64) filler {
	if d == safetensors.F32 {
		f := &table32{stream: s}
		for i, v := range t {
			f.values[i] = bits(d, offset+float64(scale*v))
		}
		return f
	}
	f := &table16{stream: s}
	for i, v := range t {
		f.values[i] = uint16(bits(d, offset+float64(scale*v)))
	}
	return f
}

func (f *table16) fill(dst []byte, at int64) {
	i := at / 8
	for ; len(dst) >= 8; dst, i = dst[8:], i+1 {
		binary.LittleEndian.PutUint64(dst, f.four(i))
	}
	if len(dst) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], f.four(i))
		copy(dst, last[:])
	}
}

func (f *table16) four(i int64) uint64 {
	r := f.block(i)
	return uint64(f.values[r%cells]) | uint64(f.values[r>>16%cells])<<16 |
		uint64(f.values[r>>32%cells])<<32 | uint64(f.values[r>>48%cells])<<48
}

func (f *table32) fill(dst []byte, at int64) {
	var four [16]byte
	for i := at / 16; len(dst) > 0; i++ {
		r := f.block(i)
		binary.LittleEndian.PutUint64(four[:], uint64(f.values[r%cells])|uint64(f.values[r>>16%cells])<<32)
		binary.LittleEndian.PutUint64(four[8:], uint64(f.values[r>>32%cells])|uint64(f.values[r>>48%cells])<<32)
		dst = dst[copy(dst, four[:]):]
	}
}

// levels writes values of a few levels times a scale per row, as in a model trained with quantization whose weights are
// stored as floats.
type levels struct {
	stream
	scales stream
	dtype  safetensors.DType
	k      int64        // columns
	rows   int64        // rows per scale
	levels []float64    // at most 16
	pick   [cells]uint8 // index into levels
	base   float64      // mean scale
	spread float64      // scales lie in base·(1 ± spread)
}

func (f *levels) fill(dst []byte, at int64) {
	size := f.dtype.Size()
	i, r := at/size, uint64(0)
	var patterns [16]uint32
	for first := true; len(dst) > 0; i, dst, first = i+1, dst[size:], false {
		if first || i%f.k == 0 {
			patterns = f.patterns(i / f.k)
		}
		if first || i%4 == 0 {
			r = f.block(i / 4)
		}
		p := patterns[f.pick[r>>(16*uint(i%4))%cells]%16]
		if size == 2 {
			binary.LittleEndian.PutUint16(dst, uint16(p))
		} else {
			binary.LittleEndian.PutUint32(dst, p)
		}
	}
}

// patterns returns the levels of a row in its dtype.
func (f *levels) patterns(row int64) (p [16]uint32) {
	scale := f.base * (1 + f.spread*(2*f.scales.unit(row/f.rows)-1))
	for i, l := range f.levels {
		p[i] = bits(f.dtype, float64(l*scale))
	}
	return p
}

// codes writes ternary codes four rows to a byte: row m in field m / rows of byte (m mod rows)·k + column, code w + 1
// (the packing of the transformers library).
type codes struct {
	stream
	m, k  int64
	bytes [1 << 16]uint16 // 16 random bits to two bytes, eight codes
}

// newCodes distributes the random patterns over the 3⁸ pairs of bytes by their probability.
func newCodes(s stream, m, k int, zeros float64) *codes {
	f := &codes{stream: s, m: int64(m), k: int64(k)}
	p := [3]float64{(1 - zeros) / 2, zeros, (1 - zeros) / 2}
	sum, next := 0.0, 0
	for i := range 6561 {
		var b uint16
		share := 1.0
		for field, rest := 0, i; field < 8; field, rest = field+1, rest/3 {
			b |= uint16(rest%3) << (2 * field)
			share = float64(share * p[rest%3])
		}
		sum += share
		for last := int(math.RoundToEven(sum * (1 << 16))); next < last; next++ {
			f.bytes[next] = b
		}
	}
	return f
}

func (f *codes) fill(dst []byte, at int64) {
	whole, i := dst, at/8
	for ; len(dst) >= 8; dst, i = dst[8:], i+1 {
		binary.LittleEndian.PutUint64(dst, f.eight(i))
	}
	if len(dst) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], f.eight(i))
		copy(dst, last[:])
	}
	f.clear(whole, at)
}

func (f *codes) eight(i int64) uint64 {
	r := f.block(i)
	return uint64(f.bytes[uint16(r)]) | uint64(f.bytes[uint16(r>>16)])<<16 |
		uint64(f.bytes[uint16(r>>32)])<<32 | uint64(f.bytes[r>>48])<<48
}

// clear zeros the fields of rows past M, in the bytes of the last rows when 4 does not divide M.
func (f *codes) clear(dst []byte, at int64) {
	rows := (f.m + 3) / 4
	for field := int64(0); field < 4; field++ {
		past := max(0, f.m-field*rows) // rows of this field that exist
		for i := max(at, past*f.k); i < at+int64(len(dst)) && past < rows; i++ {
			dst[i-at] &^= 3 << (2 * field)
		}
	}
}

// one writes a single number: a weight_scale.
type one struct {
	dtype safetensors.DType
	value float64
}

func (f one) fill(dst []byte, _ int64) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], bits(f.dtype, f.value))
	copy(dst, b[:])
}
