package onnx

import (
	"io"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
)

// embed looks tokens up.
func (d *decoder) embed() (h string, err error) {
	if e, quantized := d.manifest.Entry(d.model.Embed); quantized {
		h, err = d.decoded(e)
	} else {
		h, err = d.lookedUp()
	}
	return d.times(h, d.model.EmbedScale, "embedding/scaled"), err
}

// lookedUp gathers rows of a float embedding.
func (d *decoder) lookedUp() (string, error) {
	w, kind, err := d.plain(d.model.Embed)
	h := d.op("Gather", []string{w, "input_ids"}, "embedding", attribute{"axis", int64(0)})
	if kind != float32Kind {
		h = d.op("Cast", []string{h}, "embedding/widened", attribute{"to", int64(float32Kind)})
	}
	return h, err
}

// decoded gathers and dequantizes rows of a quantized embedding. Blocks are a dimension, so that a tied output head
// multiplies the same codes in MatMulNBits; for a head in MatMulInteger, the codes are also stored column-major.
func (d *decoder) decoded(e *packed.Entry) (string, error) {
	f, err := formOf(e)
	if err != nil {
		return "", err
	}
	name, rows, blocks := e.Name, int64(e.MatrixShape().M), int64(f.blocks())
	if d.arithmetic == export.Exact && !f.exact(d.file, d.manifest.Activation) && d.model.Head == d.model.Embed {
		name += ".rows"
	}
	d.codes[name] = &f
	codes, err := d.tensor(name, uint8Kind, f.codeDims(), func(w io.Writer) error { return f.writeCodes(d.file, w) })
	if err != nil {
		return "", err
	}
	scales, err := d.tensor(e.Name+".rows.scales", float32Kind, []int64{rows, blocks, 1},
		func(w io.Writer) error { return f.writeScales(d.file, w) })
	if err != nil {
		return "", err
	}
	in := []string{codes, "input_ids", scales}
	if !f.defaultZero() {
		zeros, err := d.tensor(e.Name+".rows.zero_points", uint8Kind, []int64{rows, blocks, 1},
			func(w io.Writer) error { return f.writeZeros(d.file, w, 1) })
		if err != nil {
			return "", err
		}
		in = append(in, zeros)
	}
	h := d.contrib("GatherBlockQuantized", in, "embedding/blocks", attribute{"bits", int64(f.bits)},
		attribute{"block_size", int64(f.block)},
		attribute{"gather_axis", int64(0)}, attribute{"quantize_axis", int64(2)})
	if e.Min {
		if h, err = d.embeddedMinima(h, &f); err != nil {
			return "", err
		}
	}
	k, columns := int64(e.MatrixShape().K), blocks*int64(f.block)
	if k == columns {
		return d.op("Reshape", []string{h, d.ints(0, 0, k)}, "embedding"), nil
	}
	h = d.op("Reshape", []string{h, d.ints(0, 0, columns)}, "embedding/filled")
	return d.op("Slice", []string{h, d.ints(0), d.ints(k), d.ints(-1)}, "embedding"), nil
}

// embeddedMinima adds the minima of the blocks of looked up rows: the floats of NUMERICS N39.
func (d *decoder) embeddedMinima(h string, f *form) (string, error) {
	minima, err := d.tensor(f.entry.Name+".rows.minima", float32Kind, append(f.scaleDims(), 1),
		func(w io.Writer) error { return f.writeMinima(d.file, w) })
	added := d.op("Gather", []string{minima, "input_ids"}, "embedding/minima", attribute{"axis", int64(0)})
	return d.op("Add", []string{h, added}, "embedding/added"), err
}
