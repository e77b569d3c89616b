package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// inGroups is a recipe with a scale for each group of columns.
func inGroups(quant, scale, activation string) packed.Recipe {
	return packed.Recipe{Quant: quant, Scale: scale, Activation: activation, AllowLossy: true}
}

// withMinima are packed files with minima of every type, beside codes of every width. Rows of 344 columns end within a
// group; groups are smaller and larger than those of the activations.
func withMinima(t *testing.T) map[string]string {
	t.Helper()
	small := exports.SmallLlama(t)
	of := func(dtype packed.ScaleType, r packed.Recipe) string {
		return exports.WithMinima(t, exports.Packed(t, small, r), dtype)
	}
	return map[string]string{
		"MLX": exports.Packed(t, shared.Path(t, filepath.Join("data", "packed", "mlx-b4-g64")), packed.Recipe{}),
		"MLX, two and six bits": exports.Packed(t, shared.Path(t, filepath.Join("data", "packed", "mlx-mixed_2_6")),
			packed.Recipe{}),
		"MLX, one bit": exports.Packed(t, shared.Path(t, filepath.Join("data", "packed", "mlx-b1-g128")),
			packed.Recipe{}),
		"K-quants of four bits": of(packed.ScaleF16I8, inGroups("int4", "group:32", "")),
		"K-quants of two bits":  of(packed.ScaleF16I8, inGroups("int2", "group:16", "")),
		"large groups":          of(packed.ScaleF32, inGroups("int4", "group:128", "group:32")),
		"small groups":          of(packed.ScaleF16, inGroups("int8", "group:16", "group:64")),
		"one scale per token":   of(packed.ScaleBF16, inGroups("int4", "group:64", "token")),
		"blocks cut in two":     of(packed.ScaleF32, inGroups("int4", "group:512", "token")),
	}
}

// TestMinima: the weights of plain graphs are within the bound that the report states, and exact graphs have integer
// sums of codes, which their report bounds.
func TestMinima(t *testing.T) {
	rounded := false
	for name, source := range withMinima(t) {
		plain, told := exportedOf(t, source, export.Plain)
		if text := strings.Join(told.Details, "\n"); !strings.Contains(text,
			"is within 2⁻²³·(|code·scale| + |minimum|)") || strings.Contains(text, "exact are") {
			t.Errorf("%s: details %q", name, told.Details)
		}
		rounded = weightsWithinBound(t, name, source, plain) || rounded
		exact, told := exportedOf(t, source, "")
		if text := strings.Join(told.Details, "\n"); !strings.Contains(text, "minima of ") ||
			!strings.Contains(text, "exact are the sums of integers, not the logits") {
			t.Errorf("%s: details %q", name, told.Details)
		}
		if g := modelOf(t, exact); g.arithmetic() != export.Exact ||
			!slices.Equal(operators(g), []string{"MatMulInteger"}) {
			t.Errorf("%s: arithmetic %s by %v", name, g.arithmetic(), operators(g))
		}
		sameMinima(t, name, source, exact)
	}
	if !rounded {
		t.Error("no weight is rounded in any unpacked file")
	}
}

// weightsWithinBound reads the matrices of a plain graph back from its files. It reports whether lowpack unpack rounds.
func weightsWithinBound(t *testing.T, name, source, dir string) (rounded bool) {
	t.Helper()
	f, unpacked := exports.Open(t, source), exports.Open(t, exports.Unpacked(t, source))
	for i := range f.Manifest().Packed {
		e := &f.Manifest().Packed[i]
		if !e.Min || e.Name == "model.embed_tokens.weight" { // which TestInteropMinima compares by its logits
			continue
		}
		m, err := formOf(e)
		if err != nil {
			t.Fatal(err)
		}
		zeros := dataOf(t, dir, e.Name+".zero_points")
		s := exports.Stored{Codes: make([]int8, e.Weights()), Zero: int(m.get(zeros, 0)) - m.zero, Group: m.block,
			Scales: floatsOf(t, dir, e.Name+".scales"), Minima: floatsOf(t, dir, e.Name+".minima")}
		if err := m.read(s.Codes, bytes.NewReader(dataOf(t, dir, e.Name))); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(zeros, zeros[:1]) != len(zeros) || s.Zero != int(m.alphabet.Values[0]) {
			t.Errorf("%s: %s: zero points that are not the lowest code", name, e.Name)
		}
		rounded = exports.WithinBound(t, unpacked, e, s) || rounded
	}
	return rounded
}

// sameMinima demands the minima of the packed file in an exact graph, once for each group of columns, and zeros for
// columns that fill up groups of the activations.
func sameMinima(t *testing.T, name, source, dir string) {
	t.Helper()
	f := exports.Open(t, source)
	for i := range f.Manifest().Packed {
		e := &f.Manifest().Packed[i]
		if !e.Min || e.Name == "model.embed_tokens.weight" {
			continue
		}
		want, err := packed.Minima(f, e)
		if err != nil {
			t.Fatal(err)
		}
		columns, size := e.MatrixShape().K, max(1, f.Manifest().Activation.Size)
		columns = (columns + size - 1) / size * size
		wide := (columns + e.Scale.Group - 1) / e.Scale.Group
		var all []float32
		for row := range slices.Chunk(want, e.Groups()) {
			all = append(append(all, row...), make([]float32, wide-len(row))...)
		}
		if got := floatsOf(t, dir, e.Name+".minima"); !slices.Equal(got, all) {
			t.Errorf("%s: %s: %d other minima than the %d of the packed file", name, e.Name, len(got), len(all))
		}
	}
}

// dataOf is the data of a tensor.
func dataOf(t *testing.T, dir, name string) []byte {
	t.Helper()
	g := modelOf(t, dir)
	i := slices.IndexFunc(g.tensors, func(x tensor) bool { return x.name == name })
	if i < 0 {
		t.Fatalf("no tensor %s", name)
	}
	x := &g.tensors[i]
	if x.inline != nil {
		return x.inline
	}
	f, err := os.Open(filepath.Join(dir, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, x.offset, x.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func floatsOf(t *testing.T, dir, name string) (list []float32) {
	t.Helper()
	for data := dataOf(t, dir, name); len(data) > 0; data = data[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return list
}

// TestMinimaDamage: a flipped bit of any minima, and of zero points beside them, is detected, in both arithmetics.
func TestMinimaDamage(t *testing.T) {
	source := exports.WithMinima(t, exports.Packed(t, exports.SmallLlama(t), inGroups("int4", "group:32", "")),
		packed.ScaleF16I8)
	for _, a := range export.Arithmetics() {
		dir, _ := exportedOf(t, source, export.Arithmetic(a))
		good := exports.Contents(t, dir)[dataFile]
		n, g := 0, modelOf(t, dir)
		for i := range g.tensors {
			x := &g.tensors[i]
			if !strings.HasSuffix(x.name, ".minima") && !strings.HasSuffix(x.name, ".zero_points") || x.inline != nil {
				continue
			}
			bad := []byte(good)
			bad[x.offset+x.bytes()-1] ^= 0x80 // the sign of the last one
			path := filepath.Join(dir, dataFile)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) ||
				!strings.Contains(err.Error(), x.name) {
				t.Errorf("%s, %s: %v", a, x.name, err)
			}
			if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n < 14 {
			t.Errorf("%s: %d tensors of minima", a, n)
		}
	}
}
