package quantized

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float8"
	"github.com/lowpack/lowpack/pack"
)

// elements maps E2M1 nibbles to codes: twice the element. Nibble 8, −0, becomes code 0.
var elements = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// Columns per scale.
const (
	mxBlock = 32
	nvBlock = 16
)

// fours says how a format stores a matrix of E2M1 elements, low nibble first.
type fours struct {
	weight, scale string            // suffixes
	words, scales safetensors.DType // of elements, bytes or words; of scales
	block         int               // columns per scale
	global        string            // suffix of the number that all scales are divided by; "" = none
	multiplies    bool              // they are multiplied by it, and it may have no dimension
	small         bool              // scales are E4M3, not E8M0
}

// Formats of MX have E8M0 scales; those of NVFP4 are E4M3, which MLX has as bytes.
var (
	compressedMX = fours{".weight_packed", ".weight_scale", safetensors.U8, safetensors.U8, mxBlock, "", false, false}
	compressedNV = fours{".weight_packed", ".weight_scale", safetensors.U8, e4m3, nvBlock, ".weight_global_scale",
		false, true}
	modelOptMX = fours{".weight", ".weight_scale", safetensors.U8, safetensors.U8, mxBlock, "", false, false}
	modelOptNV = fours{".weight", ".weight_scale", safetensors.U8, e4m3, nvBlock, ".weight_scale_2", true, true}
	mlxMX      = fours{".weight", ".scales", "U32", safetensors.U8, mxBlock, "", false, false}
	mlxNV      = fours{".weight", ".scales", "U32", safetensors.U8, nvBlock, "", false, true}
)

func (f fours) layer(p *parts, note string) (*Layer, error) {
	experts := p.experts(f.weight)
	dims := 2 + len(experts)
	w := p.need(f.weight, dims, f.words)
	s := p.need(f.scale, dims, f.scales)
	rows, columns := w.Shape[dims-2], w.Shape[dims-1]*int(f.words.Size())*2
	p.shape(s, append(experts, rows, columns/f.block)...)
	if columns%f.block != 0 {
		p.fail(pack.ErrUnsupported, "%d columns are not a multiple of the group size %d", columns, f.block)
	}
	if g, _ := p.look(p.module + f.global); f.multiplies && g.DType != "" && len(g.Shape) == 0 {
		p.need(f.global, 0, safetensors.F32)
	} else if f.global != "" {
		p.shape(p.need(f.global, 1, safetensors.F32), 1)
	}
	l := Layer{Experts: count(experts), Rows: rows, Columns: columns, Bits: 4, Group: f.block, ScaleOf: safetensors.U8,
		Words: w.Name, Panel: rowMajor(columns / 2), Note: note}
	if f.small {
		l.ScaleOf = safetensors.F32
	}
	return p.finish(l, f.open)
}

func (f fours) open(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, f.scale, f.global)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Alphabet: pack.E2M1, Scales: t[0], decode: func(dst []int8, _ int, stored []byte) error {
		for i, b := range stored {
			dst[2*i], dst[2*i+1] = elements[b&15], elements[b>>4]
		}
		return nil
	}}
	if f.small {
		m.Scales = nvScales(t[0], f.factor(t[1]))
	}
	return m, nil
}

// factor returns what compressed-tensors or ModelOpt makes of E4M3 scales: a quotient by the global scale, or a
// product. Its half is exact: E4M3 has no numbers below 2^−9, so that it is subnormal only for divisors above 2^116 and
// factors below 2^−116, for which it is NaN, as for negative ones.
func (f fours) factor(global []byte) func(scale float32) float32 {
	if len(global) == 0 {
		return func(s float32) float32 { return s }
	}
	by := value(safetensors.F32, global, 0)
	switch {
	case f.multiplies && by >= 0x1p-116:
		return func(s float32) float32 { return s * by }
	case !f.multiplies && by >= 0 && by <= 0x1p116:
		return func(s float32) float32 { return s / by }
	}
	return func(float32) float32 { return float32(math.NaN()) }
}

// nvScales returns E4M3 scales as F32: what of makes of them, halved.
func nvScales(scales []byte, of func(float32) float32) []byte {
	out := make([]byte, 0, 4*len(scales))
	for _, b := range scales {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(of(float8.E4M3[b])/2))
	}
	return out
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
	return p.finish(l, fours{scale: "_scales", block: mxBlock}.open)
}
