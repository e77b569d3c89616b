package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/iquants"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// iQuant is a type with blocks of packed.FactorColumns columns that hold numbers of vectors of a grid: of all codes of
// its alphabet, only those of such vectors (formats/gguf, iquants.go).
type iQuant struct {
	alphabet pack.Alphabet
	group    int
	scale    packed.ScaleType
	put      func(b *iBlock)
}

var iQuants = map[gguf.Type]iQuant{
	gguf.IQ1_S:   {pack.Int4Odd, 32, packed.ScaleF16I8Eighths, putIQ1S},
	gguf.IQ1_M:   {pack.Int4Odd, 16, packed.ScaleF16I8Eighths, putIQ1M},
	gguf.IQ2_XXS: {pack.IQ2, 32, packed.ScaleF16I8Eighths, putIQ2XXS},
	gguf.IQ2_XS:  {pack.IQ2, 16, packed.ScaleF16I8Eighths, putIQ2XS},
	gguf.IQ2_S:   {pack.IQ2, 16, packed.ScaleF16I8Eighths, putIQ2S},
	gguf.IQ3_XXS: {pack.IQ3XXS, 32, packed.ScaleF16I8Eighths, putIQ3XXS},
	gguf.IQ3_S:   {pack.Int4Odd, 32, packed.ScaleF16I8, putIQ3S},
}

// errOffGrid: codes or scales of a matrix are not those of a type.
var errOffGrid = fmt.Errorf("%w: codes or scales that the block type does not have", pack.ErrUnsupported)

func (k iQuant) blockType() blockType {
	return blockType{k.group, packed.FactorColumns, func(a pack.Alphabet, u units, _ bool) bool {
		return u.how.DType == k.scale && u.group == k.group && a.Name == k.alphabet.Name && u.minima == nil &&
			u.zeros == nil
	}, k.encode}
}

// encode writes the blocks of a matrix, or returns errOffGrid.
func (k iQuant) encode(dst []byte, m *pack.Matrix, u units) error {
	size, left := len(dst)/(len(m.Codes)/packed.FactorColumns), u.first
	for codes := m.Codes; len(codes) > 0; codes, dst = codes[packed.FactorColumns:], dst[size:] {
		b := iBlock{dst: dst[:size], codes: codes[:packed.FactorColumns]}
		b.half, b.scales, left = u.how.Factors(left)
		clear(b.dst)
		if k.put(&b); b.off {
			return errOffGrid
		}
	}
	return nil
}

// onGrid returns errOffGrid if a type has a grid, and a matrix of an entry other codes or scales: only writing it
// tells.
func (w *ggufWriter) onGrid(ctx context.Context, e *packed.Entry, kind gguf.Type, u units) error {
	if _, ok := iQuants[kind]; !ok {
		return nil
	}
	shape := e.MatrixShape()
	for expert := range e.Experts() {
		r, err := openRows(w.file, e, expert, nil)
		if err != nil {
			return err
		}
		rows, n := pieces(shape, r.panel)
		err = parallel.Write(ctx, io.Discard, n, func(b []byte, i int) ([]byte, error) {
			first := i * rows
			own := min(rows, shape.M-first)
			part, err := r.read(make([]int8, own*shape.K), first, own)
			if err != nil {
				return nil, err
			}
			b = grown(b, own*int(kind.RowSize(int64(shape.K))))
			return b, iQuants[kind].encode(b, part, u.of(expert*shape.M+first, own))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// iBlock is a block that is written.
type iBlock struct {
	dst    []byte
	codes  []int8
	scales []int8
	half   float32
	off    bool // something was not to be written
}

// must notes what the type does not have.
func (b *iBlock) must(ok bool) { b.off = b.off || !ok }

// putHalf writes the float16 at the start.
func (b *iBlock) putHalf() { binary.LittleEndian.PutUint16(b.dst, float16.Narrow(b.half)) }

// scale returns the number s of which the integer of a group is unit·(2s + 1).
func (b *iBlock) scale(group int, unit, most int8) uint32 {
	s := b.scales[group]
	b.must(s > 0 && s%unit == 0 && s/unit%2 == 1 && s/unit/2 <= most)
	return uint32(uint8(s/unit) / 2)
}

// putNibbles writes the scales of groups, two in a byte.
func (b *iBlock) putNibbles(dst []byte) {
	for g := range b.scales {
		dst[g/2] |= byte(b.scale(g, 1, 15)) << (g % 2 * 4)
	}
}

// vector returns the number of the vector with the magnitudes of the codes from a column on, and their signs.
func (b *iBlock) vector(g *iquants.Grid, levels *[128]byte, column int) (number int, signs byte) {
	own := b.codes[column:][:g.Columns]
	for j, c := range own {
		signs |= uint8(c) >> 7 << j
	}
	number, ok := g.Find(func(j int) int { return int(levels[max(own[j], -own[j])]) })
	b.must(ok)
	return number, signs
}

// seven returns eight signs of which only seven are stored.
func (b *iBlock) seven(signs byte) uint32 {
	b.must(bits.OnesCount8(signs)%2 == 0)
	return uint32(signs & 127)
}

// levelsOf is the level of each magnitude of an alphabet.
func levelsOf(a pack.Alphabet) *[128]byte {
	var t [128]byte
	for i, v := range a.Values[len(a.Values)/2:] {
		t[v] = byte(i)
	}
	return &t
}

var levelsIQ2, levelsIQ3XXS, levelsIQ3S = levelsOf(pack.IQ2), levelsOf(pack.IQ3XXS), levelsOf(pack.Int4Odd)

func putIQ2XXS(b *iBlock) {
	b.putHalf()
	for g := range b.scales {
		w := b.scale(g, 1, 15) << 28
		for l := range 4 {
			number, signs := b.vector(iquants.IQ2XXS, levelsIQ2, 32*g+8*l)
			b.dst[2+8*g+l] = byte(number)
			w |= b.seven(signs) << (7 * l)
		}
		binary.LittleEndian.PutUint32(b.dst[6+8*g:], w)
	}
}

func putIQ2XS(b *iBlock) {
	b.putHalf()
	for i := range packed.FactorColumns / 8 {
		number, signs := b.vector(iquants.IQ2XS, levelsIQ2, 8*i)
		binary.LittleEndian.PutUint16(b.dst[2+2*i:], uint16(number)|uint16(b.seven(signs))<<9)
	}
	b.putNibbles(b.dst[66:])
}

func putIQ2S(b *iBlock) {
	b.putHalf()
	for i := range packed.FactorColumns / 8 {
		number, signs := b.vector(iquants.IQ2S, levelsIQ2, 8*i)
		b.dst[2+i], b.dst[34+i] = byte(number), signs
		b.dst[66+i/4] |= byte(number>>8) << (i % 4 * 2)
	}
	b.putNibbles(b.dst[74:])
}

func putIQ3XXS(b *iBlock) {
	b.putHalf()
	for g := range b.scales {
		w := b.scale(g, 4, 15) << 28
		for l := range 4 {
			first, low := b.vector(iquants.IQ3XXS, levelsIQ3XXS, 32*g+8*l)
			second, high := b.vector(iquants.IQ3XXS, levelsIQ3XXS, 32*g+8*l+4)
			b.dst[2+8*g+2*l], b.dst[3+8*g+2*l] = byte(first), byte(second)
			w |= b.seven(low|high<<4) << (7 * l)
		}
		binary.LittleEndian.PutUint32(b.dst[66+4*g:], w)
	}
}

func putIQ3S(b *iBlock) {
	b.putHalf()
	for i := range packed.FactorColumns / 4 {
		number, signs := b.vector(iquants.IQ3S, levelsIQ3S, 4*i)
		b.dst[2+i] = byte(number)
		b.dst[66+i/8] |= byte(number>>8) << (i % 8)
		b.dst[74+i/2] |= signs << (i % 2 * 4)
	}
	b.putNibbles(b.dst[106:])
}

// shifted returns the number of the vector of ternary digits that are an eighth more or less in the codes of eight
// columns, and 1 if less.
func (b *iBlock) shifted(column int) (number int, less uint32) {
	own, shift := b.codes[column:][:8], int8(1)
	if own[0]&7 == 7 {
		shift, less = -1, 1
	}
	number, ok := iquants.IQ1.Find(func(j int) int {
		digit := own[j] - shift
		b.must(digit%8 == 0 && digit >= -8 && digit <= 8)
		return int(digit/8+1) & 3
	})
	b.must(ok)
	return number, less
}

func putIQ1S(b *iBlock) {
	b.putHalf()
	for g := range b.scales {
		w := b.scale(g, 1, 7) << 12
		for l := range 4 {
			number, less := b.shifted(32*g + 8*l)
			b.must(l == 0 || less == w>>15)
			b.dst[2+4*g+l] = byte(number)
			w |= uint32(number>>8)<<(3*l) | less<<15
		}
		binary.LittleEndian.PutUint16(b.dst[34+2*g:], uint16(w))
	}
}

// putIQ1M writes a nibble of the float16 above each four scales.
func putIQ1M(b *iBlock) {
	half := uint32(float16.Narrow(b.half))
	for i := range packed.FactorColumns / 8 {
		number, less := b.shifted(8 * i)
		b.dst[i] = byte(number)
		b.dst[32+i/2] |= byte(uint32(number>>8)|less<<3) << (i % 2 * 4)
	}
	for i := range 4 {
		w := half >> (4 * i) & 15 << 12
		for n := range 4 {
			w |= b.scale(4*i+n, 1, 7) << (3 * n)
		}
		binary.LittleEndian.PutUint16(b.dst[48+2*i:], uint16(w))
	}
}
