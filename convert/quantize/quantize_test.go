package quantize

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// f32 encodes weights as rows of F32.
func f32(w ...float32) []byte {
	var b []byte
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// run carries out a job over all rows at once.
func run(t testing.TB, j Job, src []byte) (*Quantizer, []int8) {
	t.Helper()
	q, codes, err := try(j, src)
	if err != nil {
		t.Fatal(err)
	}
	return q, codes
}

func try(j Job, src []byte) (*Quantizer, []int8, error) {
	q, err := New(j)
	if err != nil {
		return nil, nil, err
	}
	if q.Passes() == 2 {
		if err := q.Measure(0, src); err != nil {
			return nil, nil, err
		}
	}
	if err := q.Fix(); err != nil {
		return nil, nil, err
	}
	codes := make([]int8, j.Shape.M*j.Shape.K)
	return q, codes, q.Quantize(codes, 0, src)
}

// golden holds the quantizer cases of quantizers.json.
type golden struct {
	Name      string
	Matrix    [][]float32     `json:"W"`
	Weights   json.RawMessage `json:"w"`
	MeanAbs   float32         `json:"mean_abs"`
	AlphaInit float32         `json:"alpha_init"`
	Dequant   [][]float32
	Codes     json.RawMessage
	Trits     []int8
	Levels    []float32
	Signs     [][]int8
}

func goldens(t *testing.T) map[string]golden {
	t.Helper()
	text, err := os.ReadFile(shared.Testdata(t, "vectors/quantizers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []golden }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	byName := map[string]golden{}
	for _, c := range file.Cases {
		byName[c.Name] = c
	}
	return byName
}

func TestGoldenAbsmean(t *testing.T) {
	for _, name := range []string{"absmean_ternary", "absmean_ties", "absmean_zero"} {
		c, ok := goldens(t)[name]
		if !ok {
			t.Fatalf("no case %s", name)
		}
		var want [][]int8
		if err := json.Unmarshal(c.Codes, &want); err != nil {
			t.Fatal(err)
		}
		s := pack.Shape{M: len(c.Matrix), K: len(c.Matrix[0])}
		q, codes := run(t, Job{Rule: "absmean", DType: F32, Shape: s}, f32(slices.Concat(c.Matrix...)...))
		if !slices.Equal(codes, slices.Concat(want...)) {
			t.Errorf("%s: codes %v, want %v", name, codes, want)
		}
		if q.Scales()[0] != 1/(1/c.MeanAbs) {
			t.Errorf("%s: scale %v, want %v", name, q.Scales()[0], c.MeanAbs)
		}
		for i, d := range slices.Concat(c.Dequant...) {
			if float32(codes[i])*q.Scales()[0] != d {
				t.Errorf("%s: weight %d comes back as %v, want %v", name, i, float32(codes[i])*q.Scales()[0], d)
			}
		}
	}
}

// TestGoldenParetoQ passes α = 1 to the rules directly: the vectors give α, they do not derive it from the weights.
func TestGoldenParetoQ(t *testing.T) {
	c := goldens(t)["paretoq_2bit_SEQ"]
	var w []float32
	var unsigned []int8
	unmarshal(t, c.Weights, &w)
	unmarshal(t, c.Codes, &unsigned)
	rule := mustFind(t, "int2-elastic")
	scale, _ := rule.fit(stat{pos: 1, neg: 1}, roundTo(ScaleF32))
	for i, x := range w {
		code := rule.code(x, 1)
		if code != 2*unsigned[i]-3 || float32(code)*scale != c.Levels[i] {
			t.Errorf("2-bit: %v gives code %d and %v, want %d and %v", x, code, float32(code)*scale, 2*unsigned[i]-3,
				c.Levels[i])
		}
	}
	c = goldens(t)["paretoq_1.58bit_SEQ"]
	unmarshal(t, c.Weights, &w)
	rule = mustFind(t, "ternary-elastic")
	scale, _ = rule.fit(stat{pos: 1, neg: 1}, roundTo(ScaleF32))
	for i, x := range w {
		code := rule.code(x, 1)
		if code != c.Trits[i] || float32(code)*scale != c.Levels[i] {
			t.Errorf("1.58-bit: %v gives code %d and %v, want %d and %v", x, code, float32(code)*scale, c.Trits[i],
				c.Levels[i])
		}
	}
	c = goldens(t)["paretoq_1bit"]
	var m [][]float32
	unmarshal(t, c.Weights, &m)
	q, codes := run(t, Job{Rule: "sign", DType: F32, Shape: pack.Shape{M: 1, K: len(m[0])}}, f32(m[0]...))
	if !slices.Equal(codes, c.Signs[0]) || q.Scales()[0] != c.AlphaInit {
		t.Errorf("1-bit: %v × %v, want %v × %v", codes, q.Scales(), c.Signs, c.AlphaInit)
	}
}

func mustFind(t *testing.T, name string) Rule {
	t.Helper()
	r, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPlanned: a quantizer that has seen no weights takes no memory by the size of its tensor, and an exact one keeps
// no more than the scales: a plan has one for each tensor.
func TestPlanned(t *testing.T) {
	for _, rule := range rules {
		for _, kind := range rule.Kinds {
			group := 0
			if kind == PerGroup {
				group = max(rule.Group, 32)
			}
			q, err := New(Job{Rule: rule.Name, DType: F32, Shape: pack.Shape{M: 8, K: 64}, Kind: kind, Group: group,
				Stats: true})
			if err != nil {
				t.Fatal(err)
			}
			if q.rows != nil || q.found != nil || q.scales != nil || q.errors != nil {
				t.Errorf("%s, scales per %s: memory is taken before weights are seen", rule.Name, kind)
			}
			if q.Passes() == 2 {
				if err := errors.Join(q.Measure(0, make([]byte, 4*8*64)), q.Fix()); err != nil {
					t.Fatal(err)
				}
			}
			if err := q.Quantize(make([]int8, 8*64), 0, make([]byte, 4*8*64)); err != nil {
				t.Fatal(err)
			}
			if q.found != nil || len(q.errors) != 8 || len(q.scales) == 0 {
				t.Errorf("%s, scales per %s: %d results of rows, %d errors, %d scales", rule.Name, kind, len(q.found),
					len(q.errors), len(q.scales))
			}
		}
	}
}

// TestAdopt: scales chosen elsewhere are kept from the first call on.
func TestAdopt(t *testing.T) {
	q, err := New(Job{Rule: "int4", DType: F32, Shape: pack.Shape{M: 3, K: 64}, Kind: PerGroup, Group: 32, Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(q.Scales()); n != 6 {
		t.Fatalf("%d scales", n)
	}
	q.Adopt(1, make([]int8, 2*64), []float32{1, 2, 3, 4}, make([]byte, 4*2*64))
	if got := q.Scales(); !slices.Equal(got, []float32{0, 0, 1, 2, 3, 4}) {
		t.Errorf("scales %v", got)
	}
}
