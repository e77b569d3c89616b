package quantized

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// bitsAndBytes is LLM.int8(): signed bytes and, per row, SCB, the absolute value of code 127.
func bitsAndBytes(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".SCB") {
		return nil, nil
	}
	w := p.need(".weight", 2, safetensors.I8)
	s := p.need(".SCB", 1, safetensors.F32)
	p.shape(s, w.Shape[0])
	if p.has(".weight_format") {
		f, _ := look(module + ".weight_format")
		if f.DType != safetensors.U8 || f.bytes() != 1 {
			p.fail(pack.ErrCorrupt, "tensor %q is %s %v, not one byte", f.Name, f.DType, f.Shape)
		}
		p.taken = append(p.taken, f)
	}
	l := Layer{Rows: w.Shape[0], Columns: w.Shape[1], Bits: 8, Group: max(w.Shape[1], 1), ScaleOf: safetensors.F32,
		Words: w.Name, Panel: rowMajor(w.Shape[1]),
		Note: "scales are SCB·(1/127), rounded to F32; outlier columns use int8 activations like all others"}
	return p.finish(l, openBitsAndBytes)
}

func openBitsAndBytes(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, ".SCB", ".weight_format")
	if err != nil {
		return nil, err
	}
	scb, format := t[0], t[1]
	if format != nil && format[0] != 0 {
		return nil, fmt.Errorf("%w: tensor %q is %d: weights in a GPU kernel's order are not supported, "+
			"only 0 (row-major)",
			pack.ErrUnsupported, l.Module+".weight_format", format[0])
	}
	m := &Matrix{Alphabet: pack.Int8, Scales: make([]byte, len(scb))}
	for i := range l.Rows {
		v := math.Float32frombits(binary.LittleEndian.Uint32(scb[4*i:])) * float32(1.0/127)
		binary.LittleEndian.PutUint32(m.Scales[4*i:], math.Float32bits(v))
	}
	m.bytes(l)
	return m, nil
}
