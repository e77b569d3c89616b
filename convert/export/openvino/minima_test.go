package openvino

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// minimal is a packed file with minima, and how its matrices are stored.
type minimal struct {
	source                string
	element, scale, added string // of codes, scales and minima
}

// withMinima are packed files with minima of every type, beside codes of every width. Rows of 344 columns end within a
// group, and one group has all columns.
func withMinima(t *testing.T) map[string]minimal {
	t.Helper()
	small := exports.SmallLlama(t)
	of := func(dtype packed.ScaleType, quant, scale string) string {
		return exports.WithMinima(t,
			exports.Packed(t, small, packed.Recipe{Quant: quant, Scale: scale, AllowLossy: true}), dtype)
	}
	mlx := func(name string) string {
		return exports.Packed(t, shared.Path(t, filepath.Join("data", "packed", name)), packed.Recipe{})
	}
	return map[string]minimal{
		"MLX":                   {mlx("mlx-b4-g64"), "u4", "f32", "bf16"},
		"MLX, two and six bits": {mlx("mlx-mixed_2_6"), "u2", "f32", "bf16"},
		"MLX, one bit":          {mlx("mlx-b1-g128"), "u2", "f32", "bf16"},
		"K-quants of four bits": {of(packed.ScaleF16I8, "int4", "group:32"), "u4", "f32", "f32"},
		"K-quants of two bits":  {of(packed.ScaleF16I8, "int2", "group:16"), "u2", "f32", "f32"},
		"Q4_1":                  {of(packed.ScaleF16, "int4", "group:32"), "u4", "f16", "f16"},
		"one group":             {of(packed.ScaleF32, "int4", "group:512"), "u4", "f32", "f32"},
		"Q5_1":                  {of(packed.ScaleF16, "int8", "group:32"), "u8", "f16", "f16"},
	}
}

// TestMinima: codes beside minima have an unsigned type and no zero point, scales and minima the type of the packed
// file; weights are within the bound that the report states; and exact arithmetic, which has no groups, is refused.
func TestMinima(t *testing.T) {
	rounded := false
	for name, c := range withMinima(t) {
		dir, told := exportedOf(t, c.source, "")
		n, text := graphOf(t, dir), strings.Join(told.Details, "\n")
		if n.arithmetic() != export.Plain || !strings.Contains(text, "is within 2⁻²³·(|code·scale| + |minimum|)") ||
			!strings.Contains(text, "no exact arithmetic") {
			t.Errorf("%s: arithmetic %s, details %q", name, n.arithmetic(), told.Details)
		}
		w := "self.model.layers.0.self_attn.q_proj.weight"
		for layer, want := range map[string]string{
			w + "_compressed": c.element, w + "_compressed/scale": c.scale, w + "/minima": c.added} {
			if got := n.layerOf(t, layer).find("data").value("element_type"); got != want {
				t.Errorf("%s: %s has type %s", name, layer, got)
			}
		}
		if to := n.layerOf(t, w+"_compressed/convert").find("data").value("destination_type"); to != "f32" {
			t.Errorf("%s: weights are computed in %s", name, to)
		}
		for _, l := range n.find("layers").nodes {
			if strings.Contains(l.value("name"), "zero_point") {
				t.Errorf("%s: %s", name, l.value("name"))
			}
		}
		rounded = weightsWithinBound(t, c.source) || rounded
		target := filepath.Join(t.TempDir(), "model")
		if _, err := Export(t.Context(), c.source, target, export.Exact, nil); !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), "--arithmetic plain") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !rounded {
		t.Error("no weight is rounded in any unpacked file")
	}
}

// TestExactTold: the report of an exact graph says what is exact, and bounds what is not.
func TestExactTold(t *testing.T) {
	_, told := exportedOf(t, tiny(t), "")
	text := strings.Join(told.Details, "\n")
	if !strings.Contains(text, "exact are the sums of integers, not the logits") ||
		!strings.Contains(text, "of a token (at least 1e-5) / 127 · ") {
		t.Errorf("details %q", told.Details)
	}
}

// weightsWithinBound compares the matrices of a graph with the unpacked file. It reports whether lowpack unpack rounds.
func weightsWithinBound(t *testing.T, source string) (rounded bool) {
	t.Helper()
	f, unpacked := exports.Open(t, source), exports.Open(t, exports.Unpacked(t, source))
	m, err := plan(f, export.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := m.graphs[0].data
	for i := range d.constants {
		c := &d.constants[i]
		if c.codes == nil || !c.codes.entry.Min {
			continue
		}
		x, shape := c.codes, c.codes.entry.MatrixShape()
		stored := make([]uint8, shape.M*(shape.K+x.padding()))
		u := &unpacker{r: bytes.NewReader(d.bytesOf(t, c.name)), bits: int(x.element.bits())}
		if err := u.read(stored); err != nil {
			t.Fatal(err)
		}
		s := exports.Stored{Group: x.group}
		for r := range shape.M {
			for _, number := range stored[r*(shape.K+x.padding()):][:shape.K] {
				s.Codes = append(s.Codes, int8(int(number)-128)) // of all widths: no zero point in the graph
			}
		}
		s.Zero = -128
		s.Scales = d.floatsOf(t, c.name+"/scale", x.scaleElement())
		s.Minima = d.floatsOf(t, weightName(x.entry.Name)+"/minima", x.minimaElement())
		rounded = exports.WithinBound(t, unpacked, x.entry, s) || rounded
	}
	return rounded
}

// bytesOf are the data of a constant.
func (d *data) bytesOf(t *testing.T, name string) []byte {
	t.Helper()
	i, known := d.places[name]
	if !known {
		t.Fatalf("no constant %s", name)
	}
	var b bytes.Buffer
	if err := d.constants[i].write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// floatsOf widens the floats of a constant.
func (d *data) floatsOf(t *testing.T, name string, e element) (list []float32) {
	t.Helper()
	types := map[element]packed.ScaleType{f16: packed.ScaleF16, bf16: packed.ScaleBF16, f32: packed.ScaleF32}
	return packed.Scale{DType: types[e]}.Widened(d.bytesOf(t, name))
}

// TestMinimaDamage: a changed minimum is detected, in graphs of dynamic and of static shapes.
func TestMinimaDamage(t *testing.T) {
	source := exports.WithMinima(t, exports.Packed(t, exports.SmallLlama(t),
		packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}), packed.ScaleF16)
	dynamic, _ := exportedOf(t, source, "")
	static := staticOf(t, source, Static{Cache: Inputs, Context: 32, Prefill: 8})
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for dir, s := range map[string]*Static{dynamic: nil, static: {Cache: Inputs, Context: 32, Prefill: 8}} {
		m, err := plan(f, export.Plain, s)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for name, d := range m.data() {
			for _, x := range d.constants {
				if !strings.HasSuffix(x.name, "/minima") {
					continue
				}
				path, last := filepath.Join(dir, name), x.offset+x.size-1
				negate(t, path, last)
				if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) ||
					!strings.Contains(err.Error(), x.name) {
					t.Errorf("%s: %v", x.name, err)
				}
				negate(t, path, last)
				n++
			}
		}
		if n != 14 {
			t.Errorf("%d tensors of minima", n)
		}
	}
}

// negate flips the sign of a float in a file, which is in the byte at.
func negate(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x80
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
