package sample

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// FromCheckpoint packs a model directory: U8 codes are imported, float linear layers are made ternary when the model
// declares it, everything else is stored unchanged.
func FromCheckpoint(t testing.TB, dir string, layout pack.Spec) *Model {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := model.Parse(c.Config(), nil, func(name string) ([]int, bool) {
		t, ok := c.Lookup(name)
		return t.Shape, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Family: d.Family}
	taken := map[string]bool{}
	for _, n := range d.Tensors() {
		if n.Linear && n.Name != d.Head && d.Quant.Declared != model.Nothing {
			m.quantize(t, c, d, n, layout)
			taken[n.Name] = true
		}
	}
	for _, src := range c.Tensors() {
		if !taken[src.Name] && !strings.HasSuffix(src.Name, "_scale") {
			m.Plain = append(m.Plain, Plain{packed.Info{Name: src.Name, DType: src.DType, Shape: src.Shape},
				read(t, c, src)})
		}
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"} {
		if text, ok := c.File(name); ok {
			m.Plain = append(m.Plain, Embed(name, string(text)))
		}
	}
	slices.SortFunc(m.Quantized, func(a, b Quantized) int { return strings.Compare(a.Name, b.Name) })
	return m
}

func (m *Model) quantize(t testing.TB, c *checkpoint.Checkpoint, d *model.Description, n model.Need, layout pack.Spec) {
	t.Helper()
	src, _ := c.Lookup(n.Name)
	q := Quantized{Name: n.Name, Layout: layout, Scale: packed.Scale{Kind: packed.ScaleTensor},
		Matrix: pack.NewMatrix(pack.Shape{M: n.Shape[0], K: n.Shape[1]}, pack.Ternary)}
	data := read(t, c, src)
	if src.DType == "U8" {
		rows, k := (q.Matrix.M+3)/4, q.Matrix.K
		for i := range q.Matrix.Codes {
			q.Matrix.Codes[i] = int8(data[i/k%rows*k+i%k]>>(2*(i/k/rows))&3) - 1
		}
		scale, ok := c.Lookup(n.Name + "_scale")
		if !ok {
			t.Fatalf("no scale of %s", n.Name)
		}
		s := Floats(string(scale.DType), read(t, c, scale))[0]
		if d.Quant.ScaleDivides {
			s = 1 / s
		}
		q.Scales, q.Quantizer = []float32{s}, "import-u8"
	} else {
		q.Scales, q.Quantizer = []float32{absmean(q.Matrix.Codes, Floats(string(src.DType), data))}, "absmean"
	}
	m.Quantized = append(m.Quantized, q)
}

// absmean is the ternary quantizer of BitNet b1.58; it returns the mean magnitude.
func absmean(codes []int8, w []float32) float32 {
	sum := 0.0
	for _, v := range w {
		sum += math.Abs(float64(v))
	}
	mean := max(float32(sum/float64(len(w))), 1e-5)
	for i, v := range w {
		codes[i] = int8(max(-1, min(1, math.RoundToEven(float64(v*(1/mean))))))
	}
	return mean
}

// Floats widens stored F32 or BF16 values.
func Floats(dtype string, b []byte) []float32 {
	var x []float32
	switch dtype {
	case "F32":
		for ; len(b) > 0; b = b[4:] {
			x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case "BF16":
		for ; len(b) > 0; b = b[2:] {
			x = append(x, math.Float32frombits(uint32(binary.LittleEndian.Uint16(b))<<16))
		}
	}
	return x
}

func read(t testing.TB, c *checkpoint.Checkpoint, src checkpoint.Tensor) []byte {
	t.Helper()
	b := make([]byte, src.Size)
	if err := c.ReadAt(src, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}
