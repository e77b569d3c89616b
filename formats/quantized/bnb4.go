package quantized

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// fourTables are the numbers that 4 bits stand for in bitsandbytes, times the largest magnitude of their block: NF4 of
// QLoRA (arXiv 2305.14314, appendix E), and E2M1 with a finer subnormal, divided by its largest element.
var fourTables = map[string][]float32{
	"nf4": {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1},
	"fp4": {0, 0.0625 / 12, 8.0 / 12, 1, 4.0 / 12, 6.0 / 12, 2.0 / 12, 3.0 / 12,
		0, -0.0625 / 12, -8.0 / 12, -1, -4.0 / 12, -6.0 / 12, -2.0 / 12, -3.0 / 12},
}

// tableOf reads weights of bitsandbytes of 4 bits.
type tableOf struct {
	kind string // what config.json declares: nf4 or fp4
}

const (
	stateSuffix = ".quant_state.bitsandbytes__"
	maxState    = 1 << 12 // bytes of JSON
	maxBlock    = 1 << 16 // weights
)

// fourBits is a matrix of 4-bit entries of a table, two per byte, the first in the upper half, along all rows. Every
// block of weights along the rows has its largest magnitude, which may be an entry of another table itself.
type fourBits struct {
	elements, largest Tensor
	table             []float32
	shape             []int
	block             int // weights
	nested            *nestedScales
}

// nestedScales are magnitudes in bytes: entries of a table, times the scale of their block, plus an offset.
type nestedScales struct {
	table, scales []float32
	block         int // magnitudes
	offset        float32
}

// values describes a weight by its tensors and by the JSON that is stored beside it.
func (f tableOf) values(name string, look Lookup, read Read) (*Values, error) {
	p := &parts{module: strings.TrimSuffix(name, ".weight"), look: look}
	weight := strings.TrimPrefix(name, p.module)
	for kind := range fourTables {
		if p.has(weight+stateSuffix+kind) && kind != f.kind {
			p.fail(pack.ErrCorrupt, "its tensors are %s, but bnb_4bit_quant_type in config.json is %q", kind, f.kind)
		}
	}
	if !p.has(weight+stateSuffix+f.kind) && !p.has(weight+".absmax") && p.err == nil {
		return nil, nil
	}
	s := p.state(weight+stateSuffix+f.kind, f.kind, read)
	if p.err != nil {
		return nil, p.err
	}
	w := &fourBits{table: fourTables[f.kind], shape: s.shape, block: s.block}
	p.four(w, weight, s)
	p.tables(w, weight, s, read)
	return p.values(Values{Name: name, Shape: s.shape, DType: s.of, Kind: f.kind, products: w.products})
}

// fourState is the JSON of a weight.
type fourState struct {
	shape         []int
	of            safetensors.DType
	block, nested int // weights and magnitudes per scale; 0 = magnitudes are floats
	offset        float32
}

// state reads the JSON of a weight.
func (p *parts) state(suffix, kind string, read Read) (s fourState) {
	t := p.need(suffix, 1, safetensors.U8)
	if p.err == nil && t.count() > maxState {
		p.fail(pack.ErrLimit, "tensor %q has %d bytes; at most %d are read", t.Name, t.count(), maxState)
	}
	if p.err != nil {
		return s
	}
	text := make([]byte, t.count())
	if p.err = read(t.Name, text, 0); p.err != nil {
		return s
	}
	v, err := object(t.Name, text)
	if err != nil {
		p.err = fmt.Errorf("module %q: %w", p.module, err)
		return s
	}
	k := &keys{file: fmt.Sprintf("module %q: tensor %q", p.module, t.Name), v: v}
	k.follow("quant_state")
	s.read(k, kind)
	p.err = k.err
	return s
}

func (s *fourState) read(k *keys, kind string) {
	pair := k.pair("shape")
	s.shape, s.block = pair[:], k.power("blocksize")
	if got := k.text("quant_type", ""); got != kind {
		k.fail(pack.ErrCorrupt, "quant_type is %q, but the name says %s", got, kind)
	}
	s.of = weightTypes[k.text("dtype", "")]
	if s.of == "" {
		k.fail(pack.ErrUnsupported, "dtype %q; supported are bfloat16, float16 and float32", k.text("dtype", ""))
	}
	if k.v.Get("nested_blocksize") == nil {
		return
	}
	s.nested = k.power("nested_blocksize")
	if t := k.text("nested_dtype", ""); t != "float32" {
		k.fail(pack.ErrUnsupported, "nested_dtype %q; supported is float32", t)
	}
	offset := k.v.Get("nested_offset")
	if offset == nil || offset.Kind != jsonread.Number {
		k.fail(pack.ErrCorrupt, "nested_offset is missing, or not a number")
		return
	}
	x, _ := offset.Float()
	s.offset = float32(x)
	if s.offset-s.offset != 0 {
		k.fail(pack.ErrCorrupt, "nested_offset is %v", x)
	}
}

// power reads a power of two.
func (k *keys) power(name string) int {
	n := k.integer(name, 0)
	if n < 1 || n > maxBlock || n&(n-1) != 0 {
		k.fail(pack.ErrUnsupported, "%s is %d; supported are powers of two up to %d", name, n, maxBlock)
		return 1
	}
	return n
}

// four takes the elements and the magnitudes.
func (p *parts) four(w *fourBits, weight string, s fourState) {
	n := s.shape[0] * s.shape[1]
	w.elements, _ = p.look(p.module + weight)
	if w.elements.bytes() != int64(ceil(n, 2)) || w.elements.count() == 0 {
		p.fail(pack.ErrCorrupt, "tensor %q has %s %v; the shape %v of the weights requires %d bytes", p.module+weight,
			w.elements.DType, w.elements.Shape, s.shape, ceil(n, 2))
	}
	p.taken = append(p.taken, w.elements)
	of := safetensors.F32
	if s.nested > 0 {
		of = safetensors.U8
	}
	w.largest = p.need(weight+".absmax", 1, of)
	p.shape(w.largest, ceil(n, s.block))
}

// tables reads the small tensors: the table of the weights, which must be the known one, and those of nested scales.
func (p *parts) tables(w *fourBits, weight string, s fourState, read Read) {
	if got := p.floats(weight+".quant_map", len(w.table), read); p.err == nil && !slices.Equal(got, w.table) {
		p.fail(pack.ErrUnsupported, "tensor %q is not the table of its type", p.module+weight+".quant_map")
	}
	if s.nested == 0 {
		return
	}
	n := ceil(s.shape[0]*s.shape[1], s.block)
	w.nested = &nestedScales{
		table:  p.floats(weight+".nested_quant_map", 256, read),
		scales: p.floats(weight+".nested_absmax", ceil(n, s.nested), read),
		block:  s.nested, offset: s.offset,
	}
}

// floats reads a vector of n finite F32.
func (p *parts) floats(suffix string, n int, read Read) []float32 {
	t := p.need(suffix, 1, safetensors.F32)
	p.shape(t, n)
	if p.err != nil {
		return nil
	}
	b, out := make([]byte, 4*n), make([]float32, n)
	if p.err = read(t.Name, b, 0); p.err != nil {
		return nil
	}
	for i := range out {
		if out[i] = value(safetensors.F32, b, i); out[i]-out[i] != 0 {
			p.fail(pack.ErrCorrupt, "tensor %q: element %d is %v", t.Name, i, out[i])
		}
	}
	return out
}

// products computes rows of weights, from row on.
func (w *fourBits) products(dst []float32, row int, read Read) error {
	from := row * w.shape[1]
	to := from + len(dst)
	largest, err := w.magnitudes(from/w.block, (to-1)/w.block+1, read)
	if err != nil {
		return err
	}
	stored := make([]byte, (to-1)/2+1-from/2)
	if err := read(w.elements.Name, stored, int64(from/2)); err != nil {
		return err
	}
	for i := range dst {
		at := from + i
		b := stored[at/2-from/2]
		if at%2 == 0 {
			b >>= 4
		}
		dst[i] = w.table[b&15] * largest[at/w.block-from/w.block]
	}
	return nil
}

// magnitudes returns the largest magnitudes of blocks, from the first up to before the last.
func (w *fourBits) magnitudes(first, last int, read Read) ([]float32, error) {
	size := int(w.largest.DType.Size())
	stored, out := make([]byte, (last-first)*size), make([]float32, last-first)
	if err := read(w.largest.Name, stored, int64(first*size)); err != nil {
		return nil, err
	}
	for i := range out {
		if n := w.nested; n != nil {
			out[i] = float32(n.table[stored[i]]*n.scales[(first+i)/n.block]) + n.offset
		} else {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(stored[4*i:]))
		}
		if out[i]-out[i] != 0 {
			return nil, fmt.Errorf("%w: tensor %q: the magnitude of block %d is %v; the checkpoint is damaged: "+
				"download it again", pack.ErrCorrupt, w.largest.Name, first+i, out[i])
		}
	}
	return out, nil
}
