package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// viewSuffix is appended to the name of a GGUF for the virtual file of its decoded tensors.
const viewSuffix = " (decoded)"

// ggufFile is a GGUF model being opened.
type ggufFile struct {
	c      *Checkpoint
	hf     hf.File
	parts  map[string]ggufPart // by tensor name
	offset int64               // of the next tensor in the virtual file
}

// ggufPart locates a tensor.
type ggufPart struct {
	file  *file
	start int64 // offset of the tensor data
	order int   // index among all tensors
}

// openGGUF opens a GGUF model of one or more files as the Hugging Face checkpoint it was converted from. called is the
// name of a single file in messages.
func (c *Checkpoint) openGGUF(d *dir, name, called string) error {
	g, err := c.ggufTexts(d, name, called)
	if err != nil {
		return err
	}
	return c.about(c.shards[0], g.tensors())
}

// ggufTexts opens the files and rebuilds the text files.
func (c *Checkpoint) ggufTexts(d *dir, name, called string) (*ggufFile, error) {
	names, err := gguf.SplitNames(name)
	if err != nil {
		return nil, err
	}
	g := &ggufFile{c: c, parts: map[string]ggufPart{}, hf: hf.File{Tensors: map[string]gguf.TensorInfo{}}}
	var headers []*gguf.Header
	for _, name := range names {
		f, err := openFile(d, name)
		if err != nil {
			return nil, err
		}
		if len(names) == 1 {
			f.name = called
		}
		c.shards = append(c.shards, f)
		c.sources = append(c.sources, Source{f.name, f.size})
		h, err := g.header(f)
		if err != nil {
			return nil, c.about(f, err)
		}
		headers = append(headers, h)
	}
	g.hf.Keys = headers[0]
	return g, c.about(c.shards[0], cmp.Or(gguf.CheckSplit(headers), g.texts()))
}

// header reads the header of a part.
func (g *ggufFile) header(f *file) (*gguf.Header, error) {
	h, err := gguf.Parse(f, f.size)
	if err != nil {
		return nil, err
	}
	return h, g.add(f, h)
}

func (g *ggufFile) add(f *file, h *gguf.Header) error {
	for _, t := range h.Tensors {
		if _, twice := g.parts[t.Name]; twice {
			return fmt.Errorf("%w: tensor %q is in another part too", pack.ErrCorrupt, t.Name)
		}
		g.hf.Tensors[t.Name] = t
		g.parts[t.Name] = ggufPart{f, h.DataStart, len(g.parts)}
	}
	if len(g.parts) > MaxTensors {
		return fmt.Errorf("%w: more than %d tensors", pack.ErrLimit, MaxTensors)
	}
	return nil
}

// texts rebuilds the text files.
func (g *ggufFile) texts() (err error) {
	g.hf.Floats = g.floats
	if g.c.texts, err = g.hf.Texts(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.c.texts)) {
		if n := int64(len(g.c.texts[name])); n > modelfile.Limit(name) {
			return fmt.Errorf("%w: %s rebuilt from its keys has %d bytes; the limit is %d", pack.ErrLimit, name, n,
				modelfile.Limit(name))
		}
	}
	return nil
}

// tensors adds the checkpoint tensors of the file.
func (g *ggufFile) tensors() error {
	list, err := g.hf.List()
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b hf.Tensor) int { return g.parts[a.From.Name].order - g.parts[b.From.Name].order })
	for _, t := range list {
		if err := g.enter(t); err != nil {
			return fmt.Errorf("tensor %q: %w", t.From.Name, err)
		}
	}
	g.c.gguf, g.c.views = true, []Source{{g.c.shards[0].name + viewSuffix, g.offset}}
	g.c.sortTensors()
	return nil
}

func (g *ggufFile) enter(t hf.Tensor) error {
	x := Tensor{Name: t.Name, File: g.c.shards[0].name + viewSuffix, Begin: g.offset}
	var err error
	switch {
	case t.Values != nil:
		x.joined, x.DType, err = g.joined(t)
	case t.Numbers != nil:
		x.made, x.DType = floatBytes(t.Numbers), safetensors.F32
	default:
		x.view, x.DType, err = g.view(t)
	}
	if err != nil {
		return err
	}
	x.Shape, x.Size = []int{}, x.DType.Size()
	for _, d := range t.Shape() {
		if d > pack.MaxDim {
			return fmt.Errorf("%w: dimension %d is too large", pack.ErrLimit, d)
		}
		x.Shape, x.Size = append(x.Shape, int(d)), x.Size*d
	}
	g.offset += x.Size
	g.c.tensors = append(g.c.tensors, x)
	return nil
}

// floatBytes are numbers as F32.
func floatBytes(list []float32) (out []byte) {
	for _, x := range list {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// plainTypes are stored the same way in both formats.
var plainTypes = map[gguf.Type]safetensors.DType{gguf.F32: safetensors.F32, gguf.F16: safetensors.F16,
	gguf.BF16: safetensors.BF16}

// view returns the view of a tensor and its element type.
func (g *ggufFile) view(t hf.Tensor) (*view, safetensors.DType, error) {
	v := &view{tensor: t, part: g.parts[t.From.Name], rows: t.From.Shape[0], columns: int(t.From.Columns())}
	switch {
	case len(t.From.Shape) == 3: // all experts, one after another
		v.rows = t.From.Shape[0] * t.From.Shape[1]
	case len(t.From.Shape) == 2:
	case t.Heads == 0:
		v.rows = 1
	case t.From.Type.RowSize(1) == 0:
		return nil, "", fmt.Errorf("%w: a vector of type %s", pack.ErrUnsupported, t.From.Type)
	default: // elements are permuted like rows
		v.columns = 1
	}
	v.stored = t.From.Type.RowSize(int64(v.columns))
	if t.Scale != nil {
		var err error
		if v.factors, err = g.floats(*t.Scale); err != nil {
			return nil, "", err
		}
	}
	if t.From.Type == gguf.I2_S {
		return v, safetensors.F32, v.i2s()
	}
	v.raw = plainTypes[t.From.Type]
	if v.raw != "" && t.Less == 0 && t.Scale == nil {
		v.size = v.stored
		return v, v.raw, nil
	}
	v.raw, v.size = "", 4*int64(v.columns)
	return v, safetensors.F32, t.From.Type.Decoded()
}

// floats reads the values of a small tensor.
func (g *ggufFile) floats(t gguf.TensorInfo) ([]float32, error) {
	if n := t.Weights(); n > 1<<16 {
		return nil, fmt.Errorf("%w: tensor %q has %d elements", pack.ErrLimit, t.Name, n)
	}
	p, row, out := g.parts[t.Name], make([]byte, t.Size), make([]float32, t.Weights())
	if err := p.read(row, t, 0); err != nil {
		return nil, err
	}
	return out, t.Type.Floats(out, row)
}

// read fills b with bytes of a tensor.
func (p ggufPart) read(b []byte, t gguf.TensorInfo, off int64) error {
	n, err := p.file.ReadAt(b, p.start+t.Begin+off)
	if n == len(b) {
		return nil
	}
	return readFailed(p.file.name, t.Name, err)
}

// Stored returns the tensor's type and size in bytes in its file; for a GGUF, those of its blocks, and for weights that
// become floats, those of their elements and scales.
func (t Tensor) Stored() (kind string, bytes int64) {
	switch {
	case t.values != nil:
		return t.values.of.Kind, t.values.stored
	case t.joined != nil:
		keys, values := t.joined.keys.tensor.From, t.joined.values.tensor.From
		return keys.Type.String(), keys.Size + values.Size
	case t.view == nil:
		return string(t.DType), t.Size
	}
	return t.view.tensor.From.Type.String(), t.view.tensor.From.Size
}

// view is a tensor whose rows are computed from stored rows.
type view struct {
	tensor  hf.Tensor
	part    ggufPart
	rows    int64
	columns int
	stored  int64             // bytes per stored row
	size    int64             // bytes per row
	raw     safetensors.DType // type of rows that are used as stored; "" = decode to F32
	factors []float32         // of weights: one, or one for the rows of each expert; nil = none
}

// i2sPacking is the packing of published files. Its rows do not share bytes.
const i2sPacking = "i2s"

func (v *view) i2s() error {
	t := &v.tensor.From
	if _, err := gguf.I2SPanel(i2sPacking, v.rows, int64(v.columns)); err != nil {
		return err
	}
	tail := make([]byte, 32)
	if err := v.part.read(tail, *t, t.Size-32); err != nil {
		return err
	}
	own, err := gguf.I2SScale(tail)
	if v.factors == nil {
		v.factors = []float32{1}
	}
	for i := range v.factors {
		v.factors[i] *= own
	}
	v.size = 4 * int64(v.columns)
	return err
}

// factorOf returns the factor of a row's weights.
func factorOf(factors []float32, row, rows int64) float32 {
	if len(factors) == 0 {
		return 1
	}
	return factors[row/(rows/int64(len(factors)))]
}

// readAt fills p with bytes starting at off; start and end need not be row boundaries.
func (v *view) readAt(p []byte, off int64) error {
	if v.raw != "" && v.tensor.Heads == 0 { // the rows are one run of bytes
		return v.part.read(p, v.tensor.From, off)
	}
	var stored, row []byte
	for len(p) > 0 {
		m, skip := off/v.size, off%v.size
		if stored == nil {
			stored = make([]byte, v.stored)
		}
		if err := v.part.read(stored, v.tensor.From, v.tensor.Row(m)*v.stored); err != nil {
			return err
		}
		dst := p[:min(int64(len(p)), v.size-skip)]
		whole := dst
		if int64(len(dst)) < v.size {
			row = append(row[:0], make([]byte, v.size)...)
			whole = row
		}
		if err := v.decode(whole, stored, factorOf(v.factors, m, v.rows)); err != nil {
			return fmt.Errorf("row %d: %w", m, err)
		}
		if int64(len(dst)) < v.size {
			copy(dst, whole[skip:])
		}
		p, off = p[len(dst):], off+int64(len(dst))
	}
	return nil
}

// decode converts a stored row, which a factor multiplies.
func (v *view) decode(dst, stored []byte, factor float32) error {
	if v.raw != "" {
		copy(dst, stored)
		return nil
	}
	values := make([]float32, v.columns)
	if t := v.tensor.From.Type; t == gguf.NVFP4 && v.tensor.Scale != nil {
		if err := t.ScaledFloats(values, stored, factor); err != nil {
			return err
		}
	} else if err := v.values(values, stored); err != nil {
		return err
	}
	for i, x := range values {
		if v.scales() {
			x *= factor
		}
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x-v.tensor.Less))
	}
	return nil
}

// scales reports whether the scale of the tensor multiplies weights; that of NVFP4 multiplies scales.
func (v *view) scales() bool {
	return v.tensor.Scale != nil && v.tensor.From.Type != gguf.NVFP4 || v.tensor.From.Type == gguf.I2_S
}

// values decodes a row without the scale of the tensor.
func (v *view) values(dst []float32, stored []byte) error {
	if v.tensor.From.Type != gguf.I2_S {
		return v.tensor.From.Type.Floats(dst, stored)
	}
	codes := make([]int8, 4*len(stored))
	if err := gguf.DecodeI2S(codes, i2sPacking, v.columns, stored); err != nil {
		return err
	}
	for i, c := range codes {
		dst[i] = float32(c)
	}
	return nil
}

// IsGGUF reports whether a path names a GGUF, by its suffix.
func IsGGUF(path string) bool { return strings.HasSuffix(path, ".gguf") }
