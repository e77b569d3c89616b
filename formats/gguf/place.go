package gguf

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// place computes the size of every tensor and checks, as llama.cpp does, that each tensor starts where the padding of
// the previous one ends. The padding of the last tensor may be missing.
func (p *parser) place() error {
	data := p.size - p.DataStart
	at := int64(0)
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Begin != at {
			return fmt.Errorf("%w: tensor %q begins at byte %d of the data; the one before it ends, with its padding, "+
				"at %d",
				pack.ErrCorrupt, t.Name, t.Begin, at)
		}
		span := data - at // available bytes
		if i+1 < len(p.Tensors) {
			span = p.Tensors[i+1].Begin - at
		}
		end, err := p.settle(t, span)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if t.Size > data-at {
			return fmt.Errorf("%w: tensor %q: the data ends %d bytes early: the file is truncated; download it again",
				pack.ErrCorrupt, t.Name, t.Size-(data-at))
		}
		at = end
	}
	if over := data - at; len(p.Tensors) > 0 && over > 0 {
		return fmt.Errorf("%w: %d bytes follow the last tensor", pack.ErrCorrupt, over)
	}
	return nil
}

// settle computes the size of a tensor. Where two types share a number, the span up to the next tensor decides between
// them. It returns the end of the tensor including padding.
func (p *parser) settle(t *TensorInfo, span int64) (end int64, err error) {
	if t.Type == Q2_0 {
		t.Type = p.whichQ2(t.Shape, span)
	}
	if t.Size, err = t.Type.Size(t.Shape); err != nil {
		return 0, err
	}
	if t.Type == MXFP4 && t.Columns()%32 == 0 && !p.fits(MXFP4, t.Shape, span) {
		return 0, fmt.Errorf("%w: type 39 with %d bytes is not MXFP4 of llama.cpp, and TL2 of bitnet.cpp, which has "+
			"the same number, is not read", pack.ErrUnsupported, span)
	}
	size, ok := padded(t.Size, p.Alignment)
	if !ok || t.Begin > 1<<62-size {
		return 0, fmt.Errorf("%w: its end overflows", pack.ErrCorrupt)
	}
	return t.Begin + size, nil
}

// whichQ2 distinguishes blocks of 128 weights from blocks of 64, which take more bytes. If neither fits, later checks
// report it.
func (p *parser) whichQ2(shape []int64, span int64) Type {
	if !p.fits(Q2_0, shape, span) && p.fits(Q2_0G128, shape, span) {
		return Q2_0G128
	}
	return Q2_0
}

// fits reports whether a tensor fills a span, with or without padding.
func (p *parser) fits(t Type, shape []int64, span int64) bool {
	size, err := t.Size(shape)
	if err != nil {
		return false
	}
	end, ok := padded(size, p.Alignment)
	return ok && (span == size || span == end)
}
