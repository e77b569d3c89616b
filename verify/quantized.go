package verify

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/verify/internal/half"
)

// importU8 is the rule of codes that were imported from a packed checkpoint.
const importU8 = "import-u8"

// checkQuantized compares the codes and scales of one tensor with its source.
func (o *origin) checkQuantized(e *packed.Entry) error {
	if e.Calibrated && (definitions[e.Quantizer].chosen == nil || o.view.Manifest().Recipe.Calibration == nil) {
		return broken("F9",
			"its scales are said to be chosen by calibration, of which the recipe or quantizer %s knows nothing",
			e.Quantizer)
	}
	if e.Quantizer == importCodes {
		return o.checkLayers(e)
	}
	switch {
	case e.Zero:
		return broken("F23", "zero points, which quantizer %s does not make", e.Quantizer)
	case e.Min:
		return broken("F25", "minima, which quantizer %s does not make", e.Quantizer)
	case e.Order:
		return broken("F24", "an order of columns, which quantizer %s does not make", e.Quantizer)
	}
	t, err := o.tensorOf(e)
	if err != nil {
		return err
	}
	scales, err := packed.Scales(o.view, e)
	if err != nil {
		return err
	}
	if e.Quantizer == importU8 {
		return o.checkImported(e, t, scales)
	}
	d, ok := definitions[e.Quantizer]
	if !ok {
		return broken("", "there is no second definition of quantizer %q: its codes cannot be checked", e.Quantizer)
	}
	w, err := o.floats(e, t)
	if err != nil {
		return err
	}
	stored := d.scaleType(e.Scale.Kind)
	if e.Scale.DType != stored || e.Scale.Signed != d.signed {
		return broken("N23", "scales are stored as %s, signed %t; those of quantizer %s per %s are %s, signed %t",
			e.Scale.DType, e.Scale.Signed, e.Quantizer, e.Scale.Kind, stored, d.signed)
	}
	u := units{def: d, calibrated: e.Calibrated,
		fed:    e.Calibrated && o.view.Manifest().Recipe.Calibration.Method == feedback && !o.embedsAlone(e),
		stored: stored,
		dtype:  t.dtype,
		k:      e.MatrixShape().K,
		group:  e.MatrixShape().K,
		perRow: 1,
		scales: scales}
	switch {
	case d.row != nil && e.Scale.Kind != packed.ScaleRow && (e.Scale.Kind != packed.ScaleGroup || d.group == nil):
		return broken("F9", "quantizer %s has no scale per %s", e.Quantizer, e.Scale.Kind)
	case e.Scale.Kind == packed.ScaleGroup:
		u.group = e.Scale.Group
		u.perRow = (u.k + u.group - 1) / u.group
	case e.Scale.Kind == packed.ScaleTensor:
		if u.whole, err = w.extent(); err != nil {
			return err
		}
	}
	if want := u.perRow * e.Rows(); u.whole == nil && len(scales) != want || u.whole != nil && len(scales) != 1 {
		return broken("F9", "%d scales for %d rows", len(scales), e.Rows())
	}
	return o.sweep(e, func(row int, codes []int8, _ []byte) error {
		x, err := w.read(row, len(codes)/u.k)
		if err != nil {
			return err
		}
		return u.compare(row, codes, x, w.bytes[:len(x)*w.size])
	})
}

// checkSigned checks what an entry says of the signs of its scales against its source.
func checkSigned(e *packed.Entry, signed bool) error {
	if e.Scale.Signed != signed {
		return broken("F9", "scales are said to be signed: %t; those of the checkpoint: %t", e.Scale.Signed, signed)
	}
	return nil
}

// negative reports whether one of some scales is below 0.
func negative(scales []float32) bool {
	return slices.ContainsFunc(scales, func(s float32) bool { return s < 0 })
}

// units compares weights that share a scale.
type units struct {
	def        definition
	calibrated bool             // scales come from a calibration text, which is not at hand
	fed        bool             // codes are chosen by error feedback
	stored     packed.ScaleType // type of the scales
	dtype      string
	k          int
	group      int // columns of a unit
	perRow     int // units of a row
	scales     []float32
	whole      *extent // of the tensor, when all of it is one unit

	all *[1 << 16]int8 // codes of weights of 16 bits, for the parameter of
	of  float32
}

// compare compares whole rows, from row on; bytes holds the stored weights.
func (u *units) compare(row int, codes []int8, w []float32, bytes []byte) error {
	size := len(bytes) / len(w)
	for ; len(codes) > 0; row, codes, w, bytes = row+1, codes[u.k:], w[u.k:], bytes[u.k*size:] {
		if u.def.row != nil {
			if err := u.compareRow(row, codes[:u.k], w[:u.k]); err != nil {
				return err
			}
			continue
		}
		var missed, least float64 // of the row
		for g := range u.perRow {
			from, to := g*u.group, min((g+1)*u.group, u.k)
			at, x := row*u.perRow+g, u.whole
			if x == nil {
				x = &extent{}
				x.add(w[from:to])
			} else {
				at = 0
			}
			a, err := u.parameter(at, x)
			if err != nil {
				return err
			}
			if u.fed {
				u.miss(w[from:to], codes[from:to], u.scales[at], a, &missed, &least)
				continue
			}
			if k := from + u.differ(codes[from:to], w[from:to], bytes[from*size:to*size], a); k < to {
				return broken("", "row %d, column %d: code %d; quantizer and source give %d (weight %v)", row,
					k, codes[k],
					u.def.code(w[k], a), w[k])
			}
		}
		if missed > mostFeedback*least {
			return broken("N38",
				"row %d: codes miss the source by %.3g, the nearest codes by %.3g: error feedback does not go as far",
				row, math.Sqrt(missed), math.Sqrt(least))
		}
	}
	return nil
}

// embedsAlone reports whether a tensor is the embedding and no head, of which error feedback knows nothing (N84).
func (o *origin) embedsAlone(e *packed.Entry) bool {
	if o.model == nil || e.Name != o.model.Embed {
		return false
	}
	_, apart := o.view.Manifest().Entry(packed.HeadName)
	return apart || o.model.Head != o.model.Embed
}

// feedback is the method of calibration that chooses codes besides scales (N38).
const feedback = "gptq"

// mostFeedback bounds the squared error of a row of such codes, as a multiple of the squared error of the nearest
// codes.
const mostFeedback = 64

// miss adds the squared errors of the codes of a unit to missed, and of the nearest codes to least.
func (u *units) miss(w []float32, codes []int8, scale, a float32, missed, least *float64) {
	for i, v := range w {
		e, n := float64(v)-float64(scale)*float64(codes[i]), float64(v)-float64(scale)*float64(u.def.code(v, a))
		*missed += float64(e * e)
		*least += float64(n * n)
	}
}

// compareRow is for rules that decide about a row, or a group of its columns, and its scale at once.
func (u *units) compareRow(row int, codes []int8, w []float32) error {
	check := u.def.row
	if u.perRow > 1 || u.group < u.k {
		check = u.def.group
	}
	for g := range u.perRow {
		from, to := g*u.group, min((g+1)*u.group, u.k)
		if err := check(w[from:to], codes[from:to], u.scales[row*u.perRow+g], u.dtype); err != nil {
			return broken("", "row %d, from column %d: %v", row, from, err)
		}
	}
	return nil
}

// differ returns the first index at which the code of a weight differs, or len(w).
func (u *units) differ(codes []int8, w []float32, bytes []byte, a float32) int {
	if u.whole != nil && len(bytes) == 2*len(w) {
		all := u.codesOf(a)
		for i, c := range codes {
			if all[binary.LittleEndian.Uint16(bytes[2*i:])] != c {
				return i
			}
		}
		return len(w)
	}
	for i, v := range w {
		if u.def.code(v, a) != codes[i] {
			return i
		}
	}
	return len(w)
}

// codesOf returns the codes of all 16-bit weights. A tensor that is one unit has more weights than that.
func (u *units) codesOf(a float32) *[1 << 16]int8 {
	if u.all == nil || u.of != a {
		u.all, u.of = &[1 << 16]int8{}, a
		for i := range u.all {
			v := half.Values()[i]
			if u.dtype == "BF16" {
				v = math.Float32frombits(uint32(i) << 16)
			}
			u.all[i] = u.def.code(v, a)
		}
	}
	return u.all
}

// parameter finds what codes of unit number at depend on, and checks its scale.
func (u *units) parameter(at int, x *extent) (float32, error) {
	if !x.finite() {
		return 0, broken("", "scale %d: a weight of the source is NaN or infinite", at)
	}
	scale := u.scales[at]
	if u.calibrated && scale != 0 {
		return u.def.chosen(scale), nil
	}
	fits, err := u.def.fit(x, u.stored)
	switch {
	case err != nil:
		return 0, broken("", "scale %d: %v", at, err)
	case u.calibrated && fits[0].scale != 0:
		return 0, broken("N37", "scale %d is zero, but the source has the weight %v there, for which calibration "+
			"finds another", at, x.extreme())
	case u.calibrated:
		return u.def.chosen(scale), nil
	}
	for _, f := range fits {
		if math.Float32bits(f.scale) == math.Float32bits(scale) {
			return f.a, nil
		}
	}
	return 0, broken("", "scale %d is %v; quantizer and source give %v", at, scale, fits[0].scale)
}

// source reads rows of a tensor of floats.
type source struct {
	*origin
	t     sourceTensor
	m, k  int
	size  int // of an element
	bytes []byte
	x     []float32
}

func (o *origin) floats(e *packed.Entry, t sourceTensor) (*source, error) {
	w := &source{origin: o, t: t, m: e.Rows(), k: e.MatrixShape().K, size: sizeOf(t.dtype)}
	if w.size == 0 || !slices.Equal(t.shape, e.Shape) {
		return nil, broken("", "the source is %s %v; quantizer %s makes %v of floats", t.dtype, t.shape,
			e.Quantizer, e.Shape)
	}
	return w, nil
}

// read returns n rows from row on, valid until the next call.
func (w *source) read(row, n int) ([]float32, error) {
	size := n * w.k * w.size
	if cap(w.bytes) < size {
		w.bytes, w.x = make([]byte, size), make([]float32, n*w.k)
	}
	b, x := w.bytes[:size], w.x[:n*w.k]
	if _, err := w.t.ReadAt(b, int64(row)*int64(w.k)*int64(w.size)); err != nil {
		return nil, err
	}
	widen(x, w.t.dtype, b)
	return x, nil
}

// extent measures the whole tensor.
func (w *source) extent() (*extent, error) {
	x := &extent{}
	n := max(1, pieceBytes/(w.k*w.size))
	for row := 0; row < w.m; row += n {
		if err := context.Cause(w.ctx); err != nil {
			return nil, err
		}
		rows, err := w.read(row, min(n, w.m-row))
		if err != nil {
			return nil, err
		}
		x.add(rows)
	}
	return x, nil
}

// checkImported compares with the codes of a packed BitNet checkpoint: U8 [R][K], R = ⌈M/4⌉, row m in bits 2·(m/R) of
// byte row m mod R, as code + 1.
func (o *origin) checkImported(e *packed.Entry, t sourceTensor, scales []float32) error {
	m, k := e.MatrixShape().M, e.MatrixShape().K
	r := (m + 3) / 4
	if t.dtype != "U8" || t.size != int64(r)*int64(k) {
		return broken("", "the source is %s %v; packed codes of [%d, %d] are U8 [%d, %d]", t.dtype, t.shape, m, k, r, k)
	}
	if err := o.checkImportedScale(e, scales); err != nil {
		return err
	}
	var lines []byte
	return o.sweep(e, func(row int, codes []int8, _ []byte) error {
		for len(codes) > 0 {
			field, line := row/r, row%r
			n := min(len(codes)/k, r-line) // rows of one field
			lines = slices.Grow(lines[:0], n*k)[:n*k]
			if _, err := t.ReadAt(lines, int64(line)*int64(k)); err != nil {
				return err
			}
			if i := mismatch(lines, codes, 2*field); i < len(lines) {
				want := int8(lines[i]>>(2*field)&3) - 1
				return broken("", "row %d, column %d: code %d, in the checkpoint %d", row+i/k, i%k, codes[i], want)
			}
			row, codes = row+n, codes[n*k:]
		}
		return nil
	})
}

// mismatch returns the first index at which the 2-bit field from bit shift on is not the code + 1, or len(fields).
func mismatch(fields []byte, codes []int8, shift int) int {
	bytes := packed.CodeBytes(codes)
	i := 0
	for ; i+8 <= len(fields); i += 8 {
		w := binary.LittleEndian.Uint64(fields[i:i+8]) >> (shift & 63) & 0x0303030303030303
		if w+0x7f7f7f7f7f7f7f7f != eight(bytes[i:i+8]) { // 127 and the field, 128 and the code
			break
		}
	}
	for i < len(fields) && int8(fields[i]>>shift&3)-1 == codes[i] {
		i++
	}
	return i
}

func (o *origin) checkImportedScale(e *packed.Entry, scales []float32) error {
	t, ok := o.second.tensors[e.Name+"_scale"]
	if !ok || o.model == nil {
		return broken("", "the checkpoint has no %s_scale, or no config.json to say what it means", e.Name)
	}
	w := &source{origin: o, t: t, m: 1, k: 1, size: sizeOf(t.dtype)}
	if w.size == 0 || t.size != int64(w.size) || len(scales) != 1 {
		return broken("", "%s is %s %v instead of one float", t.name, t.dtype, t.shape)
	}
	x, err := w.read(0, 1)
	if err != nil {
		return err
	}
	want := x[0]
	if o.model.Quant.ScaleDivides {
		want = 1 / x[0]
	}
	if math.Float32bits(scales[0]) != math.Float32bits(want) {
		return broken("", "scale %v; weight_scale %v of the checkpoint means %v", scales[0], x[0], want)
	}
	return checkSigned(e, false)
}
