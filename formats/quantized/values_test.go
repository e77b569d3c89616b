package quantized_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// bfloats are the numbers of a BF16 tensor.
func bfloats(b []byte) (out []float32) {
	for i := range len(b) / 2 {
		out = append(out, valueOf(safetensors.BF16, b, i))
	}
	return out
}

// TestBlocksOfFloats: the last blocks of a matrix may be smaller, as in DeepSeek-V3, where kv_a_proj_with_mqa has 576
// rows in blocks of 128. Some numbers of E4M3 are there.
func TestBlocksOfFloats(t *testing.T) {
	numbers := map[byte]float32{0: 0, 1: 0x1p-9, 7: 7 * 0x1p-9, 8: 0x1p-6, 0x38: 1, 0x3f: 1.875, 0x7e: 448, 0xfe: -448,
		0xb8: -1}
	var stored []byte
	for b := range numbers {
		stored = append(stored, b)
	}
	f := files{}
	f.add("x.weight", "F8_E4M3", bytes.Repeat(stored, 13)[:117], 9, 13)
	f.add("x.weight_scale_inv", safetensors.F32, floats(6, 0.5, 0.5), 3, 2)
	b, err := f.values(fp8Config)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range bfloats(b) {
		row, column := i/13, i%13
		want := numbers[stored[i%len(stored)]] * (0.5 + 0.5*float32(row/4*2+column/8))
		if v != want {
			t.Errorf("row %d, column %d is %v, want %v", row, column, v, want)
		}
	}
}

// TestTwoRoundings: a product is rounded to float32 first, as transformers computes, and then to the type of the
// weights. A product next to a tie of BF16 may be one in float32.
func TestTwoRoundings(t *testing.T) {
	f := files{}
	f.add("x.weight", "F8_E4M3", bytes.Repeat([]byte{0x3f}, 128), 8, 16)
	for bits := math.Float32bits(1); bits < math.Float32bits(2); bits++ {
		s := math.Float32frombits(bits)
		exact := 1.875 * float64(s)
		if round16(float32(exact)) == round16Once(exact) {
			continue
		}
		f.add("x.weight_scale_inv", safetensors.F32, floats(4, s, 0), 2, 2)
		b, err := f.values(fp8Config)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bfloats(b)[0], round16(float32(exact)); got != want {
			t.Errorf("1.875 times %v is %v, want %v", s, got, want)
		}
		return
	}
	t.Fatal("no product shows the difference")
}

// round16 rounds to BF16.
func round16(v float32) float32 {
	b := math.Float32bits(v)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// round16Once rounds a number from 1 to 4 to BF16, once.
func round16Once(v float64) float32 {
	unit := 0x1p-7
	if v >= 2 {
		unit *= 2
	}
	return float32(math.RoundToEven(v/unit) * unit)
}

// TestFloatsByOtherFile: where an older file declares FP8, the type of the weights is still that of config.json.
func TestFloatsByOtherFile(t *testing.T) {
	old := beside("quantize_config.json", `{"quant_method":"fp8","weight_block_size":[4,8]}`)
	s, err := quantized.Parse([]byte(`{"dtype":"float16"}`), old)
	if err != nil {
		t.Fatal(err)
	}
	f := sound(fp8Config)
	found, err := s.Values([]string{"x.weight"}, f.lookup, f.read)
	if err != nil || found["x.weight"] == nil || found["x.weight"].DType != safetensors.F16 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNamesOfE4M3: DeepSeek and MiniMax name the type of the elements differently; other types are refused.
func TestNamesOfE4M3(t *testing.T) {
	for name, known := range map[string]bool{"e4m3": true, "float8_e4m3fn": true, "e5m2": false,
		"float8_e4m3fnuz": false} {
		config := strings.Replace(fp8Config, `"quant_method"`, `"fmt":"`+name+`","quant_method"`, 1)
		_, err := quantized.Parse([]byte(config), nil)
		if known && err != nil || !known && !wellSaid(err, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOrderOfFloats: an order of columns, which no format of floats is read with, is refused.
func TestOrderOfFloats(t *testing.T) {
	for _, config := range []string{mxConfig, nvConfig, mx6Config, mx8Config, ctFloatConfig} {
		config = strings.Replace(config, `"type":"float"`, `"type":"float","actorder":"group"`, 1)
		if _, err := quantized.Parse([]byte(config), nil); !wellSaid(err, "actorder") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// TestPieces: bytes of weights are the same wherever reading begins and ends.
func TestPieces(t *testing.T) {
	for _, config := range []string{fp8Config, ctFloatConfig, nf4Config, doubleConfig, hqqConfig, aoFloatConfig,
		moSmoothConfig, qkSixConfig, mx6Config} {
		f := sound(config)
		elements := []string{"x.weight", "x.W_q", "x._weight_qdata", "x.weight_packed"}
		for _, name := range elements {
			for i := range f[name].data {
				f[name].data[i] = byte(i*37%113 + i%2<<7)
			}
		}
		whole, err := f.values(config)
		if err != nil {
			t.Fatal(err)
		}
		s, err := quantized.Parse([]byte(config), f)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Values(elements, f.lookup, f.read)
		if err != nil {
			t.Fatal(err)
		}
		v := found["x.weight"]
		for from := 0; from < len(whole); from += 13 {
			for _, n := range []int{0, 1, 31, 32, 33, 100} {
				part := make([]byte, min(n, len(whole)-from))
				err := v.ReadAt(part, int64(from), f.read)
				if err != nil || !bytes.Equal(part, whole[from:][:len(part)]) {
					t.Fatalf("%s: %d bytes from %d on differ: %v", config, n, from, err)
				}
			}
		}
		if err := v.ReadAt(make([]byte, 2), int64(len(whole))-1, f.read); err == nil {
			t.Error("bytes after the end were read")
		}
	}
}

// TestEitherCodesOrFloats: weights that are codes are no floats too.
func TestEitherCodesOrFloats(t *testing.T) {
	for _, config := range formats {
		f := sound(config)
		s, err := quantized.Parse([]byte(config), f)
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(f))
		floats, err := s.Values(names, f.lookup, f.read)
		if err != nil {
			t.Fatal(err)
		}
		codes, err := s.Layers(names, f.lookup)
		if isFloat := slices.Contains(floatForms, config); err != nil || (len(floats) > 0) != isFloat ||
			len(codes) > 0 && isFloat {
			t.Errorf("%s: %d matrices of floats, %d of codes, %v", config, len(floats), len(codes), err)
		}
	}
}

// TestInteropValues: transformers, compressed-tensors, bitsandbytes, ModelOpt, HQQ, TorchAO and Optimum Quanto make the
// same weights of the same tensors, to the last bit.
func TestInteropValues(t *testing.T) { valuesOf(t, "dequantize.py", 500) }

// TestInteropQuark: so does Quark.
func TestInteropQuark(t *testing.T) { valuesOf(t, "amdquark.py", 100) }

// valuesOf compares the weights of all checkpoints that a program makes, at least so many.
func valuesOf(t *testing.T, program string, least int) {
	root := t.TempDir()
	args := []string{root}
	for _, x := range [][2]string{{"dequantize", "compressed_tensors"}, {"modelopt", "modelopt"}, {"hqq", "hqq"},
		{"torchao", "torchao"}, {"quanto", "optimum/quanto"}, {"quark", "quark"}} {
		file := interop.File(t, x[0], x[1]+"/__init__.py")
		args = append(args, strings.TrimSuffix(file, x[1]+"/__init__.py"))
	}
	interop.Python(t, "transformers", "testdata/"+program, args...)
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	equal := 0
	for _, d := range dirs {
		equal += compareValues(t, filepath.Join(root, d.Name()))
	}
	if t.Logf("%d weights in %d checkpoints are equal", equal, len(dirs)); equal < least {
		t.Errorf("only %d weights compared", equal)
	}
}

// compareValues compares all weights of a checkpoint with those of want.safetensors beside it.
func compareValues(t *testing.T, dir string) (equal int) {
	want, err := checkpoint.Open(filepath.Join(dir, "want.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := os.Rename(filepath.Join(dir, "want.safetensors"), filepath.Join(dir, "want")); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Errorf("%v", err)
		return 0
	}
	defer c.Close()
	for _, w := range want.Tensors() {
		b := make([]byte, w.Size)
		if err := want.ReadAt(w, b, 0); err != nil {
			t.Fatal(err)
		}
		kind, got, err := weightIn(c, w.Name, w.DType)
		switch {
		case err != nil:
			t.Errorf("%s: %v", filepath.Base(dir), err)
		case kind != w.DType || len(got) != len(b):
			t.Errorf("%s: %s is %s, %d bytes; want %s, %d", filepath.Base(dir), w.Name, kind, len(got), w.DType, len(b))
		case !bytes.Equal(got, b):
			t.Errorf("%s: %s differs: %s", filepath.Base(dir), w.Name, difference(w.DType, got, b))
		default:
			equal++
		}
	}
	if n := weightsIn(t, c); n != len(want.Tensors()) {
		t.Errorf("%s: %d tensors, want %d", filepath.Base(dir), n, len(want.Tensors()))
	}
	return equal
}

// weightsIn counts the tensors of a checkpoint, those of a module with codes as one.
func weightsIn(t *testing.T, c *checkpoint.Checkpoint) int {
	scheme, err := quantized.Parse(c.Config(), c)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range c.Tensors() {
		names = append(names, x.Name)
	}
	layers, err := scheme.Layers(names, lookup(c))
	if err != nil {
		t.Fatal(err)
	}
	n := len(names)
	for _, l := range layers {
		n -= len(l.Tensors) + len(l.Ignored) - 1
	}
	return n
}

// weightIn returns the weight of a module: floats, or codes times scales, rounded to float32 and then to type t.
func weightIn(c *checkpoint.Checkpoint, name string, t safetensors.DType) (safetensors.DType, []byte, error) {
	readAt := func(name string, b []byte, off int64) error {
		x, _ := c.Lookup(name)
		return c.ReadAt(x, b, off)
	}
	scheme, err := quantized.Parse(c.Config(), c)
	if err != nil {
		return "", nil, err
	}
	l, err := scheme.Layer(strings.TrimSuffix(name, ".weight"), lookup(c))
	if err != nil {
		return "", nil, err
	}
	if l == nil {
		x, ok := c.Lookup(name)
		if !ok {
			return "", nil, fmt.Errorf("no tensor %q", name)
		}
		b := make([]byte, x.Size)
		return x.DType, b, readAt(name, b, 0)
	}
	m, err := l.Open(readAt)
	if err != nil {
		return "", nil, err
	}
	x, _ := c.Lookup(l.Words)
	stored := make([]byte, x.Size)
	if err := readAt(l.Words, stored, 0); err != nil {
		return "", nil, err
	}
	words[m] = stored
	var out []byte
	for i, q := range codes(m) {
		code := int(q)
		if m.Minima != nil {
			code -= int(m.Alphabet.Values[0])
		}
		if m.Zeros != nil {
			code -= int(m.Zeros[i/l.Group])
		}
		v := float32(code) * scaleOf(m, i/l.Group)
		both := strings.HasSuffix(l.Words, "_packed") || l.ScaleOf == safetensors.U8
		if v == 0 && both && stored[i/2]>>(4*(i%2))&15 >= 8 {
			v = float32(math.Copysign(0, -1)) // code 0 stands for both zeros, of which NVFP4 by ModelOpt has one
		}
		if m.Minima != nil {
			v = valueOf(t, appendFloat(nil, t, v), 0) + valueOf(l.ScaleOf, m.Minima, i/l.Group)
		}
		out = appendFloat(out, t, v)
	}
	return t, out, nil
}

// appendFloat rounds a number to a type.
func appendFloat(b []byte, t safetensors.DType, v float32) []byte {
	switch t {
	case safetensors.BF16:
		return binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(round16(v))>>16))
	case safetensors.F16:
		return binary.LittleEndian.AppendUint16(b, float16.Narrow(v))
	}
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

// difference describes the first element that differs.
func difference(t safetensors.DType, got, want []byte) string {
	for i := range len(want) / int(t.Size()) {
		a, b := valueOf(t, got, i), valueOf(t, want, i)
		if math.Float32bits(a) != math.Float32bits(b) {
			return fmt.Sprintf("element %d is %v, want %v", i, a, b)
		}
	}
	return "none"
}
