package pack

import (
	"fmt"
	"math"
)

// Blocks is an exchange format: rows are runs of blocks, each with a scale of its own among its bytes (ggml, OCP).
// Models are imported from and exported to these formats, they do not run with them.
//
// A weight is its code times the scale of its block. K must be a whole number of blocks: the formats have no padding.
type Blocks interface {
	// Spec has neither parameters nor a choice of alphabet.
	Spec() Spec
	// BlockSize is the number of consecutive weights of a row that share a scale.
	BlockSize() int
	// PackedSize is the exact number of bytes of a matrix of this shape.
	PackedSize(Shape) (int, error)
	// StoredScale is the scale that a block keeps for the given one: rounded to nearest float16, or unchanged. It
	// refuses scales that the format cannot hold.
	StoredScale(float32) (float32, error)
	// PackBlocks writes codes and scales, of which there are M·K/BlockSize, row-major.
	PackBlocks(dst []byte, m *Matrix, scales []float32) error
	// UnpackBlocks reads them back. It refuses codes that PackBlocks does not write.
	UnpackBlocks(m *Matrix, scales []float32, src []byte) error
	// Quantize writes the blocks of M·K weights as the format's own reference quantizer does.
	Quantize(dst []byte, s Shape, x []float32) error
}

// OpenBlocks returns the exchange format of that name.
func OpenBlocks(name string) (Blocks, error) {
	d, err := find(name)
	if err != nil {
		return nil, err
	}
	if d.blocks == nil {
		return nil, fmt.Errorf("%w: %s is not an exchange format: its scales lie apart from its codes",
			ErrUnsupported, name)
	}
	return d.blocks(Spec{Name: d.Name, Version: d.Version, Alphabet: d.Alphabets[0].Name}), nil
}

// Dequantize turns blocks back into weights, code times scale in float32.
func Dequantize(b Blocks, x []float32, s Shape, src []byte) error {
	a, err := FindAlphabet(b.Spec().Alphabet)
	if err != nil {
		return err
	}
	if _, err := b.PackedSize(s); err != nil {
		return err
	}
	if len(x) != s.M*s.K {
		return fmt.Errorf("%w: %d floats for a matrix %v", ErrCorrupt, len(x), s)
	}
	m := NewMatrix(s, a)
	scales := make([]float32, len(x)/b.BlockSize())
	if err := b.UnpackBlocks(m, scales, src); err != nil {
		return err
	}
	for i, c := range m.Codes {
		x[i] = float32(c) * scales[i/b.BlockSize()]
	}
	return nil
}

// blocks implements Blocks for a format whose codes have an address formula inside a block.
type blocks struct {
	formula
	weights  int // of a block
	bytes    int // of a block
	scale    scaleCodec
	quantize func(codes []int8, x []float32) (scale float32)
}

// scaleCodec is how a scale is kept in the bytes of a block.
type scaleCodec struct {
	at    int // first byte
	size  int // bytes, 1 or 2, little-endian
	store func(scale float32) (uint16, error)
	load  func(stored uint16) (float32, error)
}

// blockShape describes one block: its bytes, and where weight i of it goes.
type blockShape struct {
	weights, bytes int
	code           code
	radix, cell    int
	seal           *[256]uint8
	scale          scaleCodec
	rules          []Rule
	stored, note   string
	at             func(i int) place
	quantize       func(codes []int8, x []float32) (scale float32)
	fast           *strips // nil where there is no faster way
}

func openBlocks(s Spec, b blockShape) Blocks {
	return &blocks{weights: b.weights, bytes: b.bytes, scale: b.scale, quantize: b.quantize, formula: formula{
		spec: s, code: b.code, radix: b.radix, cell: b.cell, seal: b.seal, fast: b.fast,
		padded: func(sh Shape) (Shape, error) {
			if sh.K%b.weights != 0 {
				return Shape{}, fmt.Errorf("%w: %s has blocks of %d weights and no padding: a matrix %v does not fit, "+
					"its rows are not a multiple of %d",
					ErrUnsupported, s.Name, b.weights, sh, b.weights)
			}
			return sh, nil
		},
		size: func(sh Shape) int { return sh.M * sh.K / b.weights * b.bytes },
		at: func(sh Shape, m, k int) place {
			p := b.at(k % b.weights)
			p.At += (m*sh.K + k) / b.weights * b.bytes
			return p
		},
	}}
}

func (b *blocks) BlockSize() int { return b.weights }

func (b *blocks) StoredScale(scale float32) (float32, error) {
	stored, err := b.scale.store(scale)
	if err != nil {
		return 0, err
	}
	return b.scale.load(stored)
}

func (b *blocks) PackBlocks(dst []byte, m *Matrix, scales []float32) error {
	s, err := b.checkPack(dst, m)
	if err != nil {
		return err
	}
	if err := b.checkScales(m, scales); err != nil {
		return err
	}
	if b.fast == nil || !b.packFast(dst, m, s) {
		if err := b.checkCodes(m); err != nil {
			return err
		}
		b.write(dst, m, s)
	}
	for i, scale := range scales {
		stored, err := b.scale.store(scale)
		if err != nil {
			return fmt.Errorf("layout %s: block %d: %w", b.spec.Name, i, err)
		}
		b.setScale(dst, i, stored)
	}
	return nil
}

func (b *blocks) UnpackBlocks(m *Matrix, scales []float32, src []byte) error {
	s, err := b.checkUnpack(m, src)
	if err != nil {
		return err
	}
	if err := b.checkScales(m, scales); err != nil {
		return err
	}
	if b.fast == nil || !b.unpackFast(m, s, src) {
		if err := b.readAll(m, s, src); err != nil {
			return err
		}
	}
	for i := range scales {
		if scales[i], err = b.scale.load(b.storedScale(src, i)); err != nil {
			return fmt.Errorf("layout %s: block %d: %w", b.spec.Name, i, err)
		}
	}
	return nil
}

// readAll reads one weight at a time, and refuses what PackBlocks does not write, except for scales.
func (b *blocks) readAll(m *Matrix, s Shape, src []byte) error {
	if err := b.read(m, s, src); err != nil {
		return err
	}
	return b.checkSame(m, s, src, func(again []byte, m *Matrix, s Shape) {
		b.write(again, m, s)
		for i := range m.M * m.K / b.weights {
			copy(b.scaleOf(again, i), b.scaleOf(src, i))
		}
	})
}

func (b *blocks) Quantize(dst []byte, s Shape, x []float32) error {
	n, err := b.PackedSize(s)
	if err != nil {
		return err
	}
	if len(dst) != n || len(x) != s.M*s.K {
		return fmt.Errorf("%w: layout %s: a matrix %v takes %d floats and %d bytes, there are %d and %d", ErrCorrupt,
			b.spec.Name, s, s.M*s.K, n, len(x), len(dst))
	}
	a, err := FindAlphabet(b.spec.Alphabet)
	if err != nil {
		return err
	}
	m := NewMatrix(s, a)
	scales := make([]float32, len(x)/b.weights)
	for i := range scales {
		block := x[i*b.weights:][:b.weights]
		if j := nonFinite(block); j >= 0 {
			return fmt.Errorf("%w: weight %v at row %d, column %d is not a number to quantize", ErrCorrupt, block[j],
				(i*b.weights+j)/s.K, (i*b.weights+j)%s.K)
		}
		scales[i] = b.quantize(m.Codes[i*b.weights:][:b.weights], block)
	}
	return b.PackBlocks(dst, m, scales)
}

// inBlocks returns the strips of blocks of the given numbers of weights and bytes, whose fields begin at byte at:
// consecutive weights, or, if apart is not 0, weights that lie apart from each other in the fields of a byte.
func inBlocks(weights, bytes, at, bits, apart int) *strips {
	of := func(t *strip, packed []byte) []byte { return packed[t.col/weights*bytes+at:][:weights*bits/8] }
	if apart == 0 {
		return &strips{
			rows: 1, chunk: weights, flat: true,
			fold:   func(dst []byte, t *strip) { putFields(of(t, dst), t, 0, bits) },
			unfold: func(t *strip, src []byte) { getFields(t, 0, of(t, src), bits) },
		}
	}
	return &strips{
		rows: 1, chunk: weights, flat: true,
		fold:   func(dst []byte, t *strip) { putApart(of(t, dst), t, bits, apart) },
		unfold: func(t *strip, src []byte) { getApart(t, of(t, src), bits, apart) },
	}
}

// setScale writes the stored scale of block i.
func (b *blocks) setScale(data []byte, i int, stored uint16) {
	to := b.scaleOf(data, i)
	for j := range to {
		to[j] = byte(stored >> (8 * j))
	}
}

// storedScale reads the stored scale of block i.
func (b *blocks) storedScale(data []byte, i int) (stored uint16) {
	for j, x := range b.scaleOf(data, i) {
		stored |= uint16(x) << (8 * j)
	}
	return stored
}

// scaleOf returns the bytes of the scale of block i.
func (b *blocks) scaleOf(data []byte, i int) []byte {
	return data[i*b.bytes+b.scale.at:][:b.scale.size]
}

func (b *blocks) checkScales(m *Matrix, scales []float32) error {
	if want := m.M * m.K / b.weights; len(scales) != want {
		return fmt.Errorf("%w: layout %s: a matrix %v has %d blocks, there are %d scales",
			ErrCorrupt, b.spec.Name, m.Shape, want, len(scales))
	}
	return nil
}

func nonFinite(x []float32) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}

// maxAbs returns the largest magnitude of x and the first value that has it.
func maxAbs(x []float32) (magnitude, value float32) {
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > magnitude {
			magnitude, value = a, v
		}
	}
	return magnitude, value
}

// inverse is 1/d, or 0 for a block of zeros.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}
