package engine

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// view is a packed file in memory, so that tests can use tensors that no conversion would write.
type view struct {
	manifest packed.Manifest
	tensors  map[string]packed.Tensor
	files    map[string]string
}

func (v *view) Manifest() *packed.Manifest { return &v.manifest }

func (v *view) Tensor(name string) (packed.Tensor, error) {
	x, ok := v.tensors[name]
	if !ok {
		return x, fmt.Errorf("%w: tensor %q is missing", pack.ErrCorrupt, name)
	}
	return x, nil
}

func (v *view) Embedded(name string) ([]byte, bool) {
	text, ok := v.files[name]
	return []byte(text), ok
}

func newView(config string) *view {
	v := &view{tensors: map[string]packed.Tensor{}, files: map[string]string{"config.json": config}}
	if d, err := model.Parse([]byte(config), nil, nil); err == nil {
		v.manifest.Family = d.Family
	}
	return v
}

// plain adds a tensor of floats.
func (v *view) plain(name string, dtype safetensors.DType, shape []int, data []byte) {
	v.tensors[name] = packed.Tensor{Name: name, DType: dtype, Shape: shape, Data: data}
	v.manifest.Plain = append(v.manifest.Plain, packed.Plain{Name: name, DType: dtype, Shape: shape})
}

// quantized adds a matrix of codes. The number of scales says whether they are per tensor, row or group.
func (v *view) quantized(t testing.TB, name, layout string, m *pack.Matrix, scales []float32, group int) {
	t.Helper()
	v.store(t, stored{
		layout: layout, m: m, scales: scales, group: group,
		Entry: packed.Entry{Name: name, Scale: packed.Scale{DType: packed.ScaleF32}},
	})
}

// stored is a matrix of codes with its scales, and zero points and a column order, if any. Entry has its name and the
// description of its scales.
type stored struct {
	packed.Entry
	layout string
	m      *pack.Matrix
	scales []float32
	group  int
	zeros  []int8
	order  []int32
}

// store adds a matrix of codes.
func (v *view) store(t testing.TB, s stored) {
	t.Helper()
	e, m, name := s.Entry, s.m, s.Name
	l, err := pack.Open(pack.Spec{Name: s.layout, Alphabet: m.Alphabet.Name})
	if err != nil {
		t.Fatal(err)
	}
	size, err := l.PackedSize(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	e.Shape, e.Layout, e.Bytes, e.Zero, e.Order = []int{m.M, m.K}, l.Spec(), size, s.zeros != nil, s.order != nil
	switch e.Scale.Kind = packed.ScaleTensor; {
	case s.group > 0:
		e.Scale.Kind, e.Scale.Group = packed.ScaleGroup, s.group
	case len(s.scales) > 1:
		e.Scale.Kind = packed.ScaleRow
	}
	data := make([]byte, e.StoredBytes())
	if err := l.Pack(data[:size], m); err != nil {
		t.Fatal(err)
	}
	v.manifest.Packed = append(v.manifest.Packed, e)
	shape, err := e.ScaleShape()
	if err != nil {
		t.Fatal(err)
	}
	v.tensors[name+packed.PackedSuffix] = packed.Tensor{Name: name, DType: "U8", Shape: []int{len(data)}, Data: data}
	var scales []byte
	for _, x := range s.scales {
		if scales, err = e.Scale.AppendScale(scales, x); err != nil {
			t.Fatal(err)
		}
	}
	v.tensors[name+packed.ScaleSuffix] = packed.Tensor{Name: name, DType: safetensors.DType(e.Scale.DType),
		Shape: shape,
		Data:  scales}
	v.tensors[name+packed.ZeroSuffix] = packed.Tensor{Name: name, DType: "I8", Shape: shape,
		Data: packed.CodeBytes(s.zeros)}
	columns := make([]byte, 4*len(s.order))
	for j, i := range s.order {
		binary.LittleEndian.PutUint32(columns[4*j:], uint32(i))
	}
	v.tensors[name+packed.OrderSuffix] = packed.Tensor{Name: name, DType: "I32", Shape: []int{len(s.order)},
		Data: columns}
}

func bytesOf(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// clone returns a view whose manifest, tensors and files may be changed; tensor bytes are shared.
func (v *view) clone() *view {
	c := &view{manifest: v.manifest, tensors: maps.Clone(v.tensors), files: maps.Clone(v.files)}
	c.manifest.Packed, c.manifest.Plain = slices.Clone(v.manifest.Packed), slices.Clone(v.manifest.Plain)
	for i := range c.manifest.Packed {
		c.manifest.Packed[i].Shape = slices.Clone(c.manifest.Packed[i].Shape)
	}
	return c
}

// origin is what a view is made from.
type origin struct {
	dir, layout string
	values      bool
}

// views caches views by their origin: tests use the same few.
var views sync.Map

// fromCheckpoint packs a model directory. Linear layers become ternary when the config declares it, or when values says
// that they hold −s, 0 and +s; all others stay as they are.
func fromCheckpoint(t testing.TB, dir, layout string, values bool) *view {
	t.Helper()
	from := origin{dir, layout, values}
	v, ok := views.Load(from)
	if !ok {
		v, _ = views.LoadOrStore(from, from.view(t))
	}
	return v.(*view).clone()
}

func (from origin) view(t testing.TB) *view {
	t.Helper()
	dir, layout, values := from.dir, from.layout, from.values
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	generation, _ := c.File("generation_config.json")
	d, err := model.Parse(c.Config(), generation, func(name string) ([]int, bool) {
		x, ok := c.Lookup(name)
		return x.Shape, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	v := newView(string(c.Config()))
	v.files["generation_config.json"] = string(generation)
	layers := map[string]model.Need{}
	for _, n := range d.Tensors() {
		if n.Linear && n.Name != d.Head && (values || d.Quant.Declared != model.Nothing) {
			layers[n.Name] = n
		}
	}
	read := func(x checkpoint.Tensor) []byte {
		data := make([]byte, x.Size)
		if err := c.ReadAt(x, data, 0); err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, x := range c.Tensors() {
		n, linear := layers[x.Name]
		switch {
		case strings.HasSuffix(x.Name, "weight_scale"):
		case !linear:
			v.plain(x.Name, x.DType, x.Shape, read(x))
		default:
			m := pack.NewMatrix(pack.Shape{M: n.Shape[0], K: n.Shape[1]}, pack.Ternary)
			var scale float32
			if x.DType == "U8" {
				s, _ := c.Lookup(x.Name + "_scale")
				scale = unpackU8(m, read(x), widened(t, string(s.DType), read(s))[0], d.Quant.ScaleDivides)
			} else {
				scale = ternary(m, widened(t, string(x.DType), read(x)), values)
			}
			v.quantized(t, x.Name, layout, m, []float32{scale}, 0)
		}
	}
	return v
}

// unpackU8 reads the codes of packed checkpoints (MODELS 2.1) and gives their multiplying scale.
func unpackU8(m *pack.Matrix, data []byte, scale float32, divides bool) float32 {
	rows := (m.M + 3) / 4
	for i := range m.Codes {
		row, col := i/m.K, i%m.K
		m.Codes[i] = int8(data[row%rows*m.K+col]>>(2*(row/rows))&3) - 1
	}
	if divides {
		return 1 / scale
	}
	return scale
}

// ternary makes codes of floats: of floats that are ternary already, or by absmean (MODELS 1.1).
func ternary(m *pack.Matrix, w []float32, values bool) float32 {
	sum, largest := 0.0, float32(0)
	for _, x := range w {
		sum += math.Abs(float64(x))
		largest = max(largest, float32(math.Abs(float64(x))))
	}
	scale := max(float32(sum/float64(len(w))), 1e-5)
	if values {
		scale = largest
	}
	for i, x := range w {
		m.Codes[i] = int8(min(max(math.RoundToEven(float64(x*(1/scale))), -1), 1))
	}
	return scale
}

func widened(t testing.TB, dtype string, data []byte) []float32 {
	t.Helper()
	size := map[string]int{"F32": 4, "BF16": 2}[dtype]
	x := make([]float32, len(data)/size)
	for i := range x {
		switch dtype {
		case "F32":
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		case "BF16":
			x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		}
	}
	return x
}

// engine makes an engine that is closed at the end of the test.
func engine(t testing.TB, v packed.View, o Options) *Engine {
	t.Helper()
	e, err := New(v, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// sequence opens one.
func sequence(t testing.TB, e *Engine) *Sequence {
	t.Helper()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
