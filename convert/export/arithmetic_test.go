package export

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// zeroPoints is a packed file with nothing but zero points.
type zeroPoints struct {
	packed.View
	data []byte
}

func (z zeroPoints) Tensor(name string) (packed.Tensor, error) {
	return packed.Tensor{Name: name, Data: z.data}, nil
}

// TestFloatSums: the largest product counts the zero points that the file has, which may lie outside of the codes, and
// sums are exact up to 2²⁴.
func TestFloatSums(t *testing.T) {
	token := packed.Activation{Kind: packed.ActivationToken}
	for _, c := range []struct {
		zeros   []int8
		columns int // the most that are exact
	}{
		{nil, 132104}, {[]int8{0, 0}, 132104}, {[]int8{-1, 1}, 66052}, {[]int8{-2, 0}, 44034}, {[]int8{0, 2}, 44034},
		{[]int8{-128, 0}, 1024},
	} {
		for more := range 2 {
			e := &packed.Entry{Name: "w", Shape: []int{2, c.columns + more}, Layout: pack.Spec{Alphabet: "ternary"},
				Scale: packed.Scale{Kind: packed.ScaleRow}, Zero: c.zeros != nil}
			err := FloatSums(zeroPoints{data: packed.CodeBytes(c.zeros)}, e, token)
			if (err == nil) != (more == 0) || err != nil && !errors.Is(err, pack.ErrUnsupported) {
				t.Errorf("zero points %v, %d columns: %v", c.zeros, c.columns+more, err)
			}
		}
	}
}

// TestBounds: the bound of weights that a report states holds for all weights, and one of them is near it.
func TestBounds(t *testing.T) {
	imported := func(name string) string {
		return packedOf(t, shared.Path(t, filepath.Join("data", "packed", name)), packed.Recipe{})
	}
	for name, c := range map[string]struct {
		source string
		near   float64 // part of the bound that a weight reaches: its code is the least or the largest one, or nearly
	}{
		"MLX, minima":       {imported("mlx-b4-g64"), 0.99},
		"GPTQ, zero points": {imported("gptq-b4-asym-g128-v1"), 0.5},
		"int8":              {packedOf(t, exports.SmallLlama(t), exports.PerRow("int8")), 0.99},
	} {
		f, unpacked := exports.Open(t, c.source), exports.Open(t, exports.Unpacked(t, c.source))
		largest := 0.0
		for i := range f.Manifest().Packed {
			e := &f.Manifest().Packed[i]
			bound, err := largestWeight(f, e)
			if err != nil {
				t.Fatal(err)
			}
			if w := largestOf(t, unpacked, e.Name); w > bound*(1+0x1p-22) || w < c.near*bound {
				t.Errorf("%s: %s: the largest weight is %v, the bound %v", name, e.Name, w, bound)
			}
			largest = max(largest, bound)
		}
		told := Told{}
		if err := told.Bounds(f, Exact); err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(strings.Join(told.Details, "\n"), scaleUnit(f.Manifest().Activation)+" / 127 · ")
		var stated float64
		if _, err := fmt.Sscanf(text, "%g, the largest weight", &stated); err != nil || stated < largest ||
			stated > 1.01*largest {
			t.Errorf("%s: details %q, the largest weight is bounded by %v: %v", name, told.Details, largest, err)
		}
		told = Told{}
		if err := told.Bounds(f, Plain); err != nil || strings.Contains(strings.Join(told.Details, ""), "exact") {
			t.Errorf("%s: %v, details %q", name, err, told.Details)
		}
	}
}

// largestOf is the largest magnitude of the weights of a tensor as floats.
func largestOf(t *testing.T, f *packed.File, name string) (largest float64) {
	t.Helper()
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range (packed.Scale{DType: packed.ScaleF32}).Widened(x.Data) {
		largest = max(largest, math.Abs(float64(w)))
	}
	return largest
}
