package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// blocksOf returns the GGUF blocks of a matrix; nil for other matrices, and if the recipe asks for something other than
// the stored format.
func (d *decider) blocksOf(m matrix) *blocks {
	stored, ok := d.source.Blocks(m.from)
	c := choose(&d.Recipe, m.name)
	if !ok || c.keep || c.quant != QuantAuto || c.scale != "" || !included(&d.Recipe, m.name) {
		return nil
	}
	if d.Recipe.Head != "" && (m.head || d.embeds(m)) { // codes are made of their floats
		return nil
	}
	codes, _ := stored.Type.Codes()
	return &blocks{Blocks: stored, codes: codes, shape: m.shape, minima: codes.Minima && codes.Factors}
}

func (d *decider) embeds(m matrix) bool { return d.model != nil && m.name == d.model.Embed }

// importBlocks plans to import codes, scales, and zero points or minima losslessly. If they cannot be held exactly, it
// plans nothing and notes why; the weights then stay floats.
func (d *decider) importBlocks(m matrix, b *blocks) (bool, error) {
	all, err := b.judge(d)
	var inexact notExact
	if errors.As(err, &inexact) && b.codes.Minima && !b.minima {
		b.minima = true
		all, err = b.judge(d)
	}
	switch {
	case errors.As(err, &inexact):
		d.asFloats[m.name] = fmt.Sprintf("%s as floats, which are exact: %v", b.Type, inexact)
		return false, nil
	case err != nil:
		return false, inTensor(m.from, err)
	}
	if b.codes.Alphabet.Name == pack.Int2Q.Name && all.most < 2 {
		b.codes.Alphabet = pack.Ternary
	}
	scale := b.scale(m, all)
	c := choose(&d.Recipe, m.name)
	l, err := d.layout(m, c, b.codes.Alphabet, true)
	if err != nil && c.ruled != "" {
		return false, inTensor(m.from, err)
	}
	if err != nil {
		d.asFloats[m.name] = fmt.Sprintf("%s as floats, which are exact: %v", b.Type, err)
		return false, nil
	}
	s := &step{from: b.Stored, source: pipeline.Rows(b.Stored, m.shape.M)}
	s.row.Note = fmt.Sprintf("%s of a GGUF", b.Type)
	s.open = func([][]byte) (coder, error) { return newBlockDecoder(b, scale, all), nil }
	if b.codes.Factors {
		s.open = func([][]byte) (coder, error) { return newFactorDecoder(b, scale), nil }
	}
	if b.Type.Gridded() {
		d.gridded++
	}
	m.from = b.Stored
	return true, d.pack(m, s, l, packed.Entry{Scale: scale, Quantizer: importCodes, Zero: all.zeros,
		Min: b.minima}, true)
}

// noteFloats notes which GGUF codes stay floats.
func (d *decider) noteFloats() {
	if n := len(d.asFloats); n > 0 {
		first := slices.Min(slices.Collect(maps.Keys(d.asFloats)))
		d.note("matrices in blocks whose codes and scales a packed file cannot hold exactly: %d, kept as floats; "+
			"--quant int8 makes them smaller. The first is %s: %s", n, first, d.asFloats[first])
	}
}

// noteGrids says why a file of i-quants grows.
func (d *decider) noteGrids() {
	if d.gridded > 0 {
		d.detail("%d matrices have vectors of a grid in the GGUF (IQ1, IQ2, IQ3), of 1.6 to 3.4 bits per weight; here "+
			"each weight has a code of four bits", d.gridded)
	}
}

// judge examines all rows.
func (b *blocks) judge(d *decider) (all common, err error) {
	var lock sync.Mutex
	begun := false
	sweep := pipeline.NewSweep(d.read, pipeline.Rows(b.Stored, b.shape.M), b.shape, d.o.Threads)
	err = sweep.Decode(d.ctx, func(codes []int8, row int, stored []byte) error {
		return b.each(codes, row, stored, func(_ int, codes []int8, groups []group) {
			s := commonOf(groups, b.codes.Group, codes)
			lock.Lock()
			defer lock.Unlock()
			if begun {
				s = s.and(all)
			}
			all, begun = s, true
		})
	})
	return all, err
}

// scale returns the scale granularity and type in the packed file: the largest group that shares a scale, in the scale
// type of the GGUF.
func (b *blocks) scale(m matrix, all common) packed.Scale {
	s := packed.Scale{Kind: packed.ScaleGroup, Group: all.columns, DType: packed.ScaleF16, Signed: all.signed}
	if b.codes.Factors {
		s.Group, s.DType, s.Signed = b.codes.Group, packed.ScaleF16I8, true
		if b.codes.Eighths {
			s.DType = packed.ScaleF16I8Eighths
		}
		return s
	}
	switch {
	case b.minima: // which belong to groups, FORMAT F25
	case all.all && m.experts == 0: // of experts it would be a scale for each (FORMAT F9)
		s.Kind, s.Group = packed.ScaleTensor, 0
	case all.columns >= b.shape.K:
		s.Kind, s.Group = packed.ScaleRow, 0
	}
	switch {
	case b.Scaled():
		s.DType = packed.ScaleF32
	case b.Type == gguf.MXFP4:
		s.DType = packed.ScaleE8M0
	}
	return s
}

// blockDecoder imports the codes and scales of a matrix in GGUF blocks.
type blockDecoder struct {
	*blocks
	scale packed.Scale
	zeros bool
	group int // columns of an element of list
	list  []group
}

func newBlockDecoder(b *blocks, scale packed.Scale, all common) *blockDecoder {
	d := &blockDecoder{b, scale, all.zeros, min(all.columns, b.shape.K), []group{all.first}}
	if scale.Kind != packed.ScaleTensor {
		d.list = make([]group, b.shape.M*d.perRow())
	}
	return d
}

func (d *blockDecoder) perRow() int { return (d.shape.K + d.group - 1) / d.group }

func (d *blockDecoder) Decode(codes []int8, row int, stored []byte) error {
	return d.each(codes, row, stored, func(m int, _ []int8, groups []group) {
		if d.scale.Kind == packed.ScaleTensor {
			return
		}
		own := d.list[m*d.perRow():][:d.perRow()]
		for i := range own {
			own[i] = groups[i*d.group/d.codes.Group]
		}
	})
}

func (d *blockDecoder) Finish() ([]pipeline.Blob, error) {
	blobs, err := scaleBlob(d.scale, d.scales())
	switch {
	case err != nil:
		return nil, err
	case d.minima:
		minima, how := make([]float32, len(d.list)), d.scale
		for i, g := range d.list {
			minima[i] = g.minimum
		}
		how.Signed = true
		more, err := scaleBlob(how, minima)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, pipeline.Blob{Suffix: packed.MinSuffix, Data: more[0].Data})
	case d.zeros:
		zeros := make([]byte, len(d.list))
		for i, g := range d.list {
			zeros[i] = byte(g.zero)
		}
		blobs = append(blobs, pipeline.Blob{Suffix: packed.ZeroSuffix, Data: zeros})
	}
	return blobs, nil
}

func (d *blockDecoder) scales() []float32 {
	list := make([]float32, len(d.list))
	for i, g := range d.list {
		list[i] = g.scale
	}
	return list
}

func (*blockDecoder) relError() *float64 { return nil }
