package quantized

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// hqqPacking is how codes of some bits are packed: unit i of W_q has code i, code i plus the number of units, and so
// on, from the high bits down.
type hqqPacking struct {
	name, view string
	unit       safetensors.DType
	codes      int // per unit
}

// hqqPackings are the packings by bits.
var hqqPackings = map[int]hqqPacking{
	8: {"8bit_u8", "torch.uint8", safetensors.U8, 1}, 4: {"4bit_u8", "torch.uint8", safetensors.U8, 2},
	3: {"3bit_32", "torch.int32", "I32", 10}, 2: {"2bit_u8", "torch.uint8", safetensors.U8, 4},
	1: {"1bit_u8", "torch.uint8", safetensors.U8, 8},
}

// hqq are weights of HQQ: (code − zero)·scale, where the zero point is a float and both operations are rounded to the
// type of scales and zero points.
type hqq struct {
	file string
	all  *hqqParams            // of all modules
	tags map[string]*hqqParams // by name without "model", "layers" and numbers
	skip []string              // tags of modules that are floats
}

// hqqParams are what config.json declares of a module; a group of 0 is that of all columns, or rows.
type hqqParams struct{ bits, group, axis int }

// hqq reads HqqConfig.
func (k *keys) hqq() *Scheme {
	k.follow("hqq")
	f := &hqq{file: k.file, tags: map[string]*hqqParams{}}
	if k.v.Get("skip_modules") != nil {
		f.skip = k.texts("skip_modules")
	}
	switch c := k.sub("quant_config"); {
	case c.v == nil:
		k.fail(pack.ErrCorrupt, "quant_config is missing")
	case c.v.Get("weight_quant_params") != nil:
		f.all = c.hqqParams()
		k.take(c)
	default:
		k.each("quant_config", "quant_config", func(tag string, s *keys) { f.tags[tag] = s.hqqParams() })
	}
	return &Scheme{Method: "HQQ", values: f.values}
}

func (k *keys) hqqParams() *hqqParams {
	k.follow("quant_config")
	w := k.sub("weight_quant_params")
	if w.v == nil {
		k.fail(pack.ErrCorrupt, "weight_quant_params is missing")
		return &hqqParams{}
	}
	w.follow("weight_quant_params")
	p := &hqqParams{w.integer("nbits", 4), w.integer("group_size", 0), w.integer("axis", 0)}
	if hqqPackings[p.bits].name == "" {
		w.fail(pack.ErrUnsupported, "nbits is %d; supported are 1, 2, 3, 4 and 8", p.bits)
	}
	if !w.flag("channel_wise", true) || w.flag("view_as_float", false) {
		w.fail(pack.ErrUnsupported, "channel_wise is false, or view_as_float true; convert the original checkpoint")
	}
	k.take(w)
	return p
}

// of returns what is declared of a module; nil = floats.
func (f *hqq) of(module string) *hqqParams {
	tag := strings.Join(slices.DeleteFunc(strings.Split(module, "."), func(part string) bool {
		return part == "model" || part == "layers" || !strings.ContainsFunc(part, func(r rune) bool {
			return !unicode.IsNumber(r)
		})
	}), ".")
	if slices.Contains(f.skip, tag) {
		return nil
	}
	if f.all != nil {
		return f.all
	}
	return f.tags[tag]
}

// hqqCodes is a matrix of HQQ. Its elements, in the order of rows, have a scale and a zero point for each group of them
// (axis 1), or for those that are equal modulo the number of scales (axis 0).
type hqqCodes struct {
	codes, scales, zeros Tensor
	of                   safetensors.DType // of scales, zero points and weights
	bits, group, axis    int
	shape                []int
	packing              hqqPacking
}

// values describes the weight that HQQ has W_q and others in the place of. A module has all that HQQLinear writes.
func (f *hqq) values(name string, look Lookup, read Read) (*Values, error) {
	module, codes := strings.CutSuffix(name, ".W_q")
	p := &parts{module: module, look: look}
	if !codes {
		if p.module, codes = strings.CutSuffix(name, ".nbits"); codes && !p.has(".W_q") {
			p.need(".W_q", 2)
		}
		return nil, p.err
	}
	if p.has(".weight") {
		p.fail(pack.ErrCorrupt, "it has both %q and %q", name, module+".weight")
	}
	w := p.hqq(read)
	if said := f.of(module); p.err == nil && said == nil {
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s declares it as not quantized", f.file)
	} else if p.err == nil {
		w.held(p, *said, f.file)
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.values(Values{Name: module + ".weight", Elements: name, Shape: w.shape, DType: w.of,
		Kind: fmt.Sprintf("hqq%d", w.bits), products: w.products})
}

// hqqFlags are the tensors of one byte, and what they must be.
var hqqFlags = []struct {
	suffix    string
	want, any bool
}{
	{".channel_wise", true, false}, {".view_as_float", false, false}, {".quant_scale", false, false},
	{".quant_zero", false, false}, {".offload_meta", false, false}, {".encoded_state_dict", true, false},
	{".stores_quant_config", true, false}, {".optimize", false, true}, {".round_zero", false, true},
}

// hqq takes the tensors of a module.
func (p *parts) hqq(read Read) *hqqCodes {
	w := &hqqCodes{bits: p.number(".nbits", read), group: p.number(".group_size", read), axis: p.number(".axis", read)}
	dtype := p.string(".compute_dtype", read)
	w.of = weightTypes[strings.TrimPrefix(dtype, "torch.")]
	for i, v := range p.numbers(".shape", 1, 2, "I64", read) {
		if w.shape = append(w.shape, int(v)); v < 1 || v > pack.MaxDim {
			p.fail(pack.ErrCorrupt, "tensor %q: element %d is %d; want 1 to %d", p.module+".shape", i, v, pack.MaxDim)
		}
	}
	var known bool
	w.packing, known = hqqPackings[w.bits]
	for _, text := range [][2]string{{".packing", w.packing.name}, {".unpack_view_dtype", w.packing.view}} {
		if got := p.string(text[0], read); p.err == nil && (!known || got != text[1]) {
			p.fail(pack.ErrUnsupported, "tensor %q is %.20q with %d bits; supported are 1, 2, 3, 4 and 8 bits in the "+
				"packings of hqq", p.module+text[0], got, w.bits)
		}
	}
	for _, flag := range hqqFlags {
		if got := p.bool(flag.suffix, read); p.err == nil && !flag.any && got != flag.want {
			p.fail(pack.ErrUnsupported, "tensor %q is %t; supported is %t: convert the original checkpoint",
				p.module+flag.suffix, got, flag.want)
		}
	}
	// longer groups along axis 0 than the matrix has rows give runs of fewer codes than a row has
	long := p.err == nil && w.axis == 0 && w.group > w.shape[0]
	if p.err == nil && (w.of == "" || w.axis < 0 || w.axis > 1 || w.group < 1 || w.count()%w.group != 0 || long) {
		p.fail(pack.ErrUnsupported, "groups of %d along axis %d for a matrix of shape %v, computed in %.20q; "+
			"supported are whole groups along axis 0, of at most its rows, or along axis 1, and float16, bfloat16 "+
			"and float32", w.group, w.axis, w.shape, dtype)
	}
	if p.err == nil {
		p.hqqTensors(w)
	}
	return w
}

// hqqTensors takes codes, scales and zero points.
func (p *parts) hqqTensors(w *hqqCodes) {
	grid, rows, columns := []int{w.count() / w.group, 1}, w.count()/w.group, w.group
	if w.axis == 0 {
		grid, rows, columns = []int{1, w.count() / w.group}, w.group, w.count()/w.group
	}
	w.codes = p.need(".W_q", 2, w.packing.unit)
	w.scales, w.zeros = p.need(".scale", 2, w.of), p.need(".zero", 2, w.of)
	p.shape(w.scales, grid...)
	p.shape(w.zeros, grid...)
	p.shape(w.codes, ceil(rows, w.packing.codes), columns)
	if w.bits != 3 && rows%w.packing.codes != 0 {
		p.fail(pack.ErrCorrupt, "%d rows of groups are not a multiple of the %d codes of a byte", rows, w.packing.codes)
	}
}

// held compares the matrix with what is declared of it.
func (w *hqqCodes) held(p *parts, said hqqParams, file string) {
	if said.group <= 0 {
		said.group = w.shape[w.axis]
	}
	if got := (hqqParams{w.bits, w.group, w.axis}); got != said {
		p.fail(pack.ErrCorrupt, "its tensors have %d bits in groups of %d along axis %d, but %s says %d, %d and %d",
			got.bits, got.group, got.axis, file, said.bits, said.group, said.axis)
	}
}

// count returns the number of weights.
func (w *hqqCodes) count() int { return w.shape[0] * w.shape[1] }

// products computes rows of weights, from row on: in runs whose codes, and scales, follow one another.
func (w *hqqCodes) products(dst []float32, row int, read Read) error {
	run := int(w.codes.count())
	if w.axis == 0 {
		run = int(w.scales.count())
	}
	for from := row * w.shape[1]; len(dst) > 0; {
		n := min(len(dst), run-from%run)
		if err := w.run(dst[:n], from, read); err != nil {
			return err
		}
		dst, from = dst[n:], from+n
	}
	return nil
}

// run computes a run of weights, from an element on.
func (w *hqqCodes) run(dst []float32, from int, read Read) error {
	units, size := int(w.codes.count()), int(w.packing.unit.Size())
	stored := make([]byte, len(dst)*size)
	if err := read(w.codes.Name, stored, int64(from%units*size)); err != nil {
		return err
	}
	first, last, group := from%int(w.scales.count()), 0, 1
	if last = first + len(dst); w.axis == 1 {
		first, last, group = from/w.group, (from+len(dst)-1)/w.group+1, w.group
	}
	zeros, err := w.floats(w.zeros, first, last, read)
	if err != nil {
		return err
	}
	scales, err := w.floats(w.scales, first, last, read)
	if err != nil {
		return err
	}
	at := func(i int) int { return (from+i)/group - from/group }
	shift := (w.packing.codes - 1 - from/units) * w.bits
	for i := range dst {
		unit := uint32(stored[i*size])
		if size == 4 {
			unit = binary.LittleEndian.Uint32(stored[4*i:])
		}
		dst[i] = float32(unit>>shift&(1<<w.bits-1)) - zeros[at(i)]
	}
	rounded := make([]byte, len(dst)*int(w.of.Size()))
	narrow(rounded, w.of, dst)
	for i := range dst {
		dst[i] = value(w.of, rounded, i) * scales[at(i)]
	}
	return nil
}

// floats reads elements of a tensor, first to before last, which must be finite.
func (w *hqqCodes) floats(t Tensor, first, last int, read Read) ([]float32, error) {
	size := int(w.of.Size())
	stored, out := make([]byte, (last-first)*size), make([]float32, last-first)
	if err := read(t.Name, stored, int64(first*size)); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i] = value(w.of, stored, i); out[i]-out[i] != 0 {
			return nil, fmt.Errorf("%w: tensor %q: element %d is %v; the checkpoint is damaged: download it again",
				pack.ErrCorrupt, t.Name, first+i, out[i])
		}
	}
	return out, nil
}
