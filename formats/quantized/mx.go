package quantized

import (
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// elements maps E2M1 nibbles to codes: twice the element. Nibble 8, −0, becomes code 0.
var elements = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

const mxBlock = 32

// mxLayer is a matrix of E2M1 elements, low nibble first, in bytes or words, with an E8M0 scale per 32 columns.
func mxLayer(p *parts, weightSuffix, scaleSuffix string, t safetensors.DType) (*Layer, error) {
	experts := p.experts(weightSuffix)
	dims := 2 + len(experts)
	w := p.need(weightSuffix, dims, t)
	s := p.need(scaleSuffix, dims, safetensors.U8)
	rows, columns := w.Shape[dims-2], w.Shape[dims-1]*int(t.Size())*2
	p.shape(s, append(experts, rows, columns/mxBlock)...)
	if columns%mxBlock != 0 {
		p.fail(pack.ErrUnsupported, "%d columns are not a multiple of the group size %d", columns, mxBlock)
	}
	l := Layer{Experts: count(experts), Rows: rows, Columns: columns, Bits: 4, Group: mxBlock, ScaleOf: safetensors.U8,
		Words: w.Name, Panel: rowMajor(columns / 2)}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return openMX(l, read, scaleSuffix) })
}

func openMX(l *Layer, read Read, scaleSuffix string) (*Matrix, error) {
	t, err := l.read(read, scaleSuffix)
	if err != nil {
		return nil, err
	}
	return &Matrix{Alphabet: pack.E2M1, Scales: t[0], decode: func(dst []int8, _ int, stored []byte) error {
		for i, b := range stored {
			dst[2*i], dst[2*i+1] = elements[b&15], elements[b>>4]
		}
		return nil
	}}, nil
}

// expertBlocks holds the matrices of all experts of gpt-oss: blocks of 16 bytes, [experts, rows, columns/32, 16].
func expertBlocks(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has("_blocks") {
		return nil, nil
	}
	w := p.need("_blocks", 4, safetensors.U8)
	s := p.need("_scales", 3, safetensors.U8)
	p.shape(w, s.Shape[0], s.Shape[1], s.Shape[2], mxBlock/2)
	l := Layer{Experts: s.Shape[0], Rows: s.Shape[1], Columns: s.Shape[2] * mxBlock, Bits: 4, Group: mxBlock,
		ScaleOf: safetensors.U8,
		Words:   w.Name, Panel: rowMajor(s.Shape[2] * mxBlock / 2)}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return openMX(l, read, "_scales") })
}
