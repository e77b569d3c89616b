package quantized_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// refusals maps rejected samples to a word of the reason.
var refusals = map[string]string{
	"gptq-b3-planar": `"gptq_p"`,
}

// others have other formats: floats, or BitNet codes.
func other(name string) bool {
	return strings.HasPrefix(name, "bonsai-") || strings.HasPrefix(name, "bitnet-")
}

// TestSamples: for each checkpoint written by an original packer, all codes, zero points and scales are right, or it is
// rejected by name. They are right if dequantization with the packer's own rounding gives exactly the packer's bytes.
func TestSamples(t *testing.T) {
	root := shared.Path(t, "data/packed")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	equal := 0
	for _, e := range dirs {
		t.Run(e.Name(), func(t *testing.T) {
			s, err := openSample(t, filepath.Join(root, e.Name()))
			switch why := refusals[e.Name()]; {
			case why != "":
				if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), why) {
					t.Errorf("%v, want a refusal that says %s", err, why)
				}
			case err != nil:
				t.Error(err)
			case other(e.Name()):
				if s != nil {
					t.Error("is not left to others")
				}
			default:
				equal += s.compare(t)
			}
		})
	}
	if equal < 844 {
		t.Errorf("only %d matrices compared", equal)
	}
}

// TestSameCodes: checkpoints without a recorded dequantization hold the same codes as others made with the same
// settings.
func TestSameCodes(t *testing.T) {
	for _, pair := range [][2]string{
		{"autoround-auto_gptq-b4-sym-g128", "autoround-auto_round-b4-sym-g128"},
		{"awq-gemv-g128", "awq-gemm-g128"},
		{"autoround-auto_awq-b4-asym-g128", "autoround-auto_round-b4-asym-g128"},
		{"autoround-auto_awq-b4-asym-g128", "autoround-auto_round_auto_awq-b4-asym-g128"},
	} {
		a, err := openSample(t, shared.Path(t, "data/packed/"+pair[0]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := openSample(t, shared.Path(t, "data/packed/"+pair[1]))
		if err != nil {
			t.Fatal(err)
		}
		for module, m := range a.matrices {
			n := b.matrices[module]
			if !slices.Equal(codes(m), codes(n)) || !slices.Equal(m.Scales, n.Scales) ||
				!slices.Equal(m.Zeros, n.Zeros) {
				t.Errorf("%s of %v differs", module, pair)
			}
		}
	}
}

type sample struct {
	matrices map[string]*quantized.Matrix
	floats   map[string][]float32 // weights that became floats, by module
	tensors  map[string][]byte    // SCB of bitsandbytes, and the elements of MXFP4
	meta     struct {
		Digest map[string]string `json:"dequant_sha256_f32"`
		Tool   string
	}
	name string
}

func openSample(t *testing.T, dir string) (*sample, error) {
	t.Helper()
	s := &sample{matrices: map[string]*quantized.Matrix{}, floats: map[string][]float32{}, tensors: map[string][]byte{},
		name: filepath.Base(dir)}
	data, err := os.ReadFile(filepath.Join(dir, "ref", "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &s.meta); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	scheme, err := quantized.Parse(c.Config(), c)
	if scheme == nil {
		return nil, err
	}
	readAt := func(name string, b []byte, off int64) error {
		x, _ := c.Lookup(name)
		return c.ReadAt(x, b, off)
	}
	read := func(name string) ([]byte, error) {
		x, _ := c.Lookup(name)
		b := make([]byte, x.Size)
		return b, readAt(name, b, 0)
	}
	for _, x := range c.Tensors() {
		if x.Dequantized() != "" {
			b, err := read(x.Name)
			if err != nil {
				t.Fatal(err)
			}
			module := strings.TrimSuffix(x.Name, ".weight")
			for i := range len(b) / int(x.DType.Size()) {
				s.floats[module] = append(s.floats[module], valueOf(x.DType, b, i))
			}
		}
	}
	for module := range modules(c) {
		l, err := scheme.Layer(module, lookup(c))
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		if s.matrices[module], err = l.Open(readAt); err != nil {
			return nil, err
		}
		if words[s.matrices[module]], err = read(l.Words); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(l.Tensors, func(name string) bool { return strings.HasSuffix(name, ".SCB") })
		if s.matrices[module].Alphabet.Name == pack.E2M1.Name {
			i = 0
		}
		if i < 0 {
			continue
		}
		if s.tensors[module], err = read(l.Tensors[i]); err != nil {
			t.Fatal(err)
		}
	}
	return s, nil
}

func lookup(c *checkpoint.Checkpoint) quantized.Lookup {
	return func(name string) (quantized.Tensor, bool) {
		x, ok := c.Lookup(name)
		return quantized.Tensor{Name: x.Name, DType: x.DType, Shape: x.Shape}, ok
	}
}

// modules returns the modules of all tensors: their names up to the last dot or underscore.
func modules(c *checkpoint.Checkpoint) map[string]bool {
	out := map[string]bool{}
	for _, x := range c.Tensors() {
		if i := strings.LastIndex(x.Name, "."); i >= 0 {
			out[x.Name[:i]] = true
		}
		if i := strings.LastIndex(x.Name, "_"); i >= 0 {
			out[x.Name[:i]] = true
		}
	}
	return out
}

// words returns the stored codes of open matrices.
var words = map[*quantized.Matrix][]byte{}

func codes(m *quantized.Matrix) []int8 {
	out, err := read(m)
	if err != nil {
		panic(err) // the samples are valid
	}
	return out
}

// read decodes all rows, in pieces.
func read(m *quantized.Matrix) ([]int8, error) {
	l := m.Layer
	out := make([]int8, l.AllRows()*l.Columns)
	const block = 48
	for from := 0; from < l.AllRows(); from += block {
		to := min(from+block, l.AllRows())
		if err := m.Read(out[from*l.Columns:to*l.Columns], from, bytes.NewReader(words[m])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compare compares every matrix with the digest of the original dequantization.
func (s *sample) compare(t *testing.T) (equal int) {
	t.Helper()
	if len(s.matrices)+len(s.floats) == 0 {
		t.Error("no module is quantized")
	}
	for module, want := range s.meta.Digest {
		m, w := s.matrices[module], s.floats[module]
		if m == nil && w == nil {
			t.Errorf("%s is not found", module)
			continue
		}
		if m != nil {
			w = s.dequantize(module, m)
		}
		if m != nil && m.Layer.Experts > 0 {
			w = turned(m.Layer, w)
		}
		if digest(w, false) != want && digest(w, true) != want {
			t.Errorf("%s differs from the original dequantization", module)
			continue
		}
		equal++
	}
	for module, m := range s.matrices {
		held := map[int8]bool{}
		for _, v := range m.Alphabet.Values {
			held[v] = true
		}
		for c := range maps.Keys(set(codes(m))) {
			if !held[c] {
				t.Errorf("%s: code %d is not in alphabet %s", module, c, m.Alphabet.Name)
			}
		}
	}
	return equal
}

func set(codes []int8) map[int8]bool {
	out := map[int8]bool{}
	for _, c := range codes {
		out[c] = true
	}
	return out
}

// digest returns the SHA-256 of float32 values, little-endian; with −0 as +0 for programs that dequantize by
// multiplying with an identity matrix.
func digest(w []float32, positive bool) string {
	h := sha256.New()
	var b [4]byte
	for _, v := range w {
		if positive && v == 0 {
			v = 0
		}
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// turned transposes every expert, as transformers stores them.
func turned(l *quantized.Layer, w []float32) []float32 {
	out := make([]float32, len(w))
	for i := range w {
		e, r, c := i/(l.Rows*l.Columns), i/l.Columns%l.Rows, i%l.Columns
		out[(e*l.Columns+c)*l.Rows+r] = w[i]
	}
	return out
}

// dequantize rounds like the original program: once, to its compute type. There are three exceptions: GPTQModel on a
// CPU first rounds scales to that type, bitsandbytes multiplies twice, and MLX rounds scale·code before it adds the
// bias.
func (s *sample) dequantize(module string, m *quantized.Matrix) []float32 {
	l := m.Layer
	q := codes(m)
	out := make([]float32, len(q))
	for i := range q {
		row, j := i/l.Columns, i%l.Columns
		k, g := j, row*l.Groups()+j/l.Group
		if m.Order != nil {
			k = int(m.Order[j])
		}
		v := float32(q[i])
		if m.Zeros != nil {
			v = float32(int(q[i]) - int(m.Zeros[g]))
		}
		scale := scaleOf(m, g)
		switch {
		case m.Minima != nil:
			v = scale * float32(int(q[i])-int(m.Alphabet.Values[0]))
			v = s.round(m, s.round(m, v)+valueOf(l.ScaleOf, m.Minima, g))
		case m.Alphabet.Name == pack.Int8.Name && s.tensors[module] != nil:
			scb := math.Float32frombits(binary.LittleEndian.Uint32(s.tensors[module][4*row:]))
			v = float32(v*scb) * float32(1.0/127)
		case strings.HasPrefix(s.meta.Tool, "mlx") && m.Alphabet.Name == pack.Int2.Name &&
			!flat(q[i/l.Group*l.Group:][:l.Group]):
			v = s.round(m, s.round(m, scale*float32(q[i]+2))-scale*(float32(q[i]+2)-v))
		case s.meta.Tool == "gptqmodel":
			v = s.round(m, v*s.round(m, scale))
		default:
			v = s.round(m, v*scale)
		}
		if nibbles := s.tensors[module]; v == 0 && m.Alphabet.Name == pack.E2M1.Name &&
			nibbles[i/2]>>(4*(i%2))&15 == 8 {
			v = float32(math.Copysign(0, -1)) // code 0 stands for both zeros
		}
		out[row*l.Columns+k] = v
	}
	return out
}

func scaleOf(m *quantized.Matrix, i int) float32 {
	if m.Layer.ScaleOf == safetensors.U8 {
		return float32(math.Ldexp(1, int(m.Scales[i])-128))
	}
	return valueOf(m.Layer.ScaleOf, m.Scales, i)
}

func valueOf(t safetensors.DType, b []byte, i int) float32 {
	switch t {
	case safetensors.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	case safetensors.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
	h := binary.LittleEndian.Uint16(b[2*i:])
	v := math.Ldexp(float64(h&0x3ff|0x400), int(h>>10&31)-25)
	if h>>10&31 == 0 {
		v = math.Ldexp(float64(h&0x3ff), -24)
	}
	if h>>15 != 0 {
		v = -v
	}
	return float32(v)
}

func flat(codes []int8) bool { return len(set(codes)) == 1 }

// round rounds a product to the type of the scales, or to the recorded compute type.
func (s *sample) round(m *quantized.Matrix, v float32) float32 {
	kind := m.Layer.ScaleOf
	if s.meta.Tool == "gptqmodel" || m.Alphabet.Name == pack.E2M1.Name {
		kind = safetensors.BF16
	}
	switch kind {
	case safetensors.BF16:
		b := math.Float32bits(v)
		return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
	case safetensors.F16:
		_, e := math.Frexp(float64(v))
		unit := math.Ldexp(1, max(e-11, -24))
		return float32(math.RoundToEven(float64(v)/unit) * unit)
	}
	return v
}
