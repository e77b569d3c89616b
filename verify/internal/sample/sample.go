// Package sample builds small packed files for tests, without convert.
package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Quantized is a tensor to be packed.
type Quantized struct {
	Name      string
	Matrix    *pack.Matrix
	Layout    pack.Spec
	Scale     packed.Scale
	Scales    []float32
	Zeros     []int8    // nil = none
	Minima    []float32 // nil = none
	Order     []int32   // nil = none
	Experts   int       // number of matrices whose rows Matrix holds; 0 = it is one
	Quantizer string
}

// Plain is a tensor that is stored as it is.
type Plain struct {
	packed.Info
	Data []byte
}

// Model is what a packed file will hold.
type Model struct {
	Family     string
	Recipe     packed.Recipe
	Activation packed.Activation
	Quantized  []Quantized // ascending by name
	Plain      []Plain
	Sources    []string // paths of files that count as sources

	// Golden, with its size known beforehand, is called when all other tensors are written.
	GoldenSize int
	Golden     func(packed.View) []byte
}

// F32 is a plain tensor of float32 values.
func F32(name string, x []float32, shape ...int) Plain {
	return Plain{packed.Info{Name: name, DType: "F32", Shape: shape}, Bytes32(x)}
}

// Embed is a file of the checkpoint that travels in the packed file.
func Embed(name, text string) Plain {
	return Plain{packed.Info{Name: packed.FilePrefix + name, DType: "U8", Shape: []int{len(text)}}, []byte(text)}
}

// Bytes32 is the stored form of float32 values.
func Bytes32(x []float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// Write writes the packed file.
func (m *Model) Write(t testing.TB, path string) {
	t.Helper()
	c := packed.Contents{
		Manifest: packed.Manifest{Tool: "lowpack sample", Family: m.Family, Recipe: m.Recipe, Activation: m.Activation,
			Sources: digests(t, m.Sources)},
		Golden: int64(m.GoldenSize),
	}
	var bytes [][]byte
	for i := range m.Quantized {
		e, b := m.Quantized[i].entry(t)
		c.Manifest.Packed = append(c.Manifest.Packed, e)
		bytes = append(bytes, b)
	}
	for _, p := range m.Plain {
		c.Manifest.Plain = append(c.Manifest.Plain, packed.Plain{Name: p.Name, DType: p.DType, Shape: p.Shape})
	}
	w, err := packed.Create(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	put := func(name string, data []byte) {
		if err := w.WriteTensor(name, data); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range m.Quantized {
		put(q.Name+packed.PackedSuffix, bytes[i])
		put(q.Name+packed.ScaleSuffix, q.scaleBytes(t))
		if q.Zeros != nil {
			put(q.Name+packed.ZeroSuffix, packed.CodeBytes(q.Zeros))
		}
		if q.Minima != nil {
			how := q
			how.Scale.Signed, how.Scales = true, q.Minima
			put(q.Name+packed.MinSuffix, how.scaleBytes(t))
		}
		if q.Order != nil {
			put(q.Name+packed.OrderSuffix, orderBytes(q.Order))
		}
		w.Manifest().Packed[i].CodesSHA = packed.CodesDigest(q.Matrix)
	}
	for _, p := range m.Plain {
		put(p.Name, p.Data)
	}
	for i, s := range c.Manifest.Sources {
		w.Manifest().Sources[i].SHA256 = s.SHA256
	}
	if m.Golden != nil {
		put(packed.GoldenName, m.Golden(w))
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Open writes the packed file to a temporary directory and opens it until the end of the test.
func (m *Model) Open(t testing.TB) *packed.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	m.Write(t, path)
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (q *Quantized) entry(t testing.TB) (packed.Entry, []byte) {
	t.Helper()
	l, err := pack.Open(q.Layout)
	if err != nil {
		t.Fatal(err)
	}
	one := *q.Matrix
	one.M /= max(q.Experts, 1)
	size, err := l.PackedSize(one.Shape)
	if err != nil {
		t.Fatal(err)
	}
	e := packed.Entry{
		Name: q.Name, Shape: []int{one.M, one.K}, Layout: l.Spec(), Bytes: size,
		Scale: q.Scale, Zero: q.Zeros != nil, Min: q.Minima != nil, Order: q.Order != nil, Quantizer: q.Quantizer,
	}
	if q.Experts > 0 {
		e.Shape = []int{q.Experts, one.M, one.K}
	}
	b := make([]byte, e.StoredBytes())
	for i := range e.Experts() {
		one.Codes = q.Matrix.Codes[i*one.M*one.K:][:one.M*one.K]
		if err := l.Pack(b[i*e.Stride():][:size], &one); err != nil {
			t.Fatal(err)
		}
	}
	return e, b
}

func (q *Quantized) scaleBytes(t testing.TB) (b []byte) {
	t.Helper()
	s := q.Scale
	if s.DType == "" || s.DType == packed.ScaleF32 {
		return Bytes32(q.Scales) // also what no file may hold
	}
	for _, x := range q.Scales {
		var err error
		if b, err = s.AppendScale(b, x); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func orderBytes(order []int32) (b []byte) {
	for _, i := range order {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return b
}

func digests(t testing.TB, paths []string) []packed.Source {
	t.Helper()
	var list []packed.Source
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		list = append(list, packed.Source{Name: filepath.Base(path), Size: n, SHA256: hex.EncodeToString(h.Sum(nil))})
	}
	return list
}
