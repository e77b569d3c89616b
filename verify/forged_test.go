package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

const besideConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2,
"num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 301, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
"hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2}`

// besideModel has all data that may be stored next to codes: scales per row and group in every type, signed ones, zero
// points, orders of columns, a quantized embedding, activation scales per group. It has golden outputs.
func besideModel(t testing.TB) *sample.Model {
	t.Helper()
	d, err := model.Parse([]byte(besideConfig), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	forms := []struct {
		layout, alphabet string
		scale            packed.Scale
		zeros, order     bool
		minima           bool
	}{
		// the embedding
		{"vnni4", "int8", packed.Scale{Kind: packed.ScaleGroup, Group: 32, DType: packed.ScaleF16}, true, false, false},
		{"vnni4i", "int4", packed.Scale{Kind: packed.ScaleGroup, Group: 32, DType: packed.ScaleF16, Signed: true}, true,
			true, false},
		{"vnni4i", "e2m1", packed.Scale{Kind: packed.ScaleGroup, Group: 32, DType: packed.ScaleE8M0}, false,
			true, false},
		{"vnni4i", "int4", packed.Scale{Kind: packed.ScaleRow, DType: packed.ScaleBF16, Signed: true}, true,
			false, false},
		{"vnni4i", "ternary", packed.Scale{Kind: packed.ScaleGroup, Group: 64, DType: packed.ScaleF32}, false,
			true, false},
		{"vnni4i", "int4", packed.Scale{Kind: packed.ScaleGroup, Group: 64, DType: packed.ScaleF16}, false, true, true},
	}
	r := rand.New(rand.NewPCG(13, 2))
	m := &sample.Model{
		Family:     d.Family,
		Recipe:     packed.Recipe{Golden: "full"},
		Plain:      []sample.Plain{sample.Embed("config.json", besideConfig)},
		Activation: packed.Activation{Kind: packed.ActivationGroup, Size: 32},
	}
	for _, n := range d.Tensors() {
		if len(n.Shape) < 2 || n.Name == d.Head {
			m.Plain = append(m.Plain, sample.F32(n.Name, normal(r, n.Shape...), n.Shape...))
			continue
		}
		f := forms[min(len(m.Quantized), 1+len(m.Quantized)%5)]
		a, err := pack.FindAlphabet(f.alphabet)
		if err != nil {
			t.Fatal(err)
		}
		q := sample.Quantized{
			Name:   n.Name,
			Matrix: pack.NewMatrix(pack.Shape{M: n.Shape[0], K: n.Shape[1]}, a),
			Layout: pack.Spec{Name: f.layout,
				Alphabet: f.alphabet},
			Scale: f.scale, Quantizer: "test",
		}
		for i := range q.Matrix.Codes {
			q.Matrix.Codes[i] = a.Values[r.IntN(len(a.Values))]
		}
		for range n.Shape[0] * ceil(n.Shape[1], f.scale.Group) {
			q.Scales = append(q.Scales, float32(math.Ldexp(1, -4-r.IntN(3)-int(a.Values[len(a.Values)-1])/16)))
			if f.zeros {
				q.Zeros = append(q.Zeros, int8(r.IntN(9)-4))
			}
			if f.minima {
				q.Minima = append(q.Minima, -7*q.Scales[len(q.Scales)-1])
			}
		}
		if f.order {
			for _, k := range r.Perm(n.Shape[1]) {
				q.Order = append(q.Order, int32(k))
			}
		}
		m.Quantized = append(m.Quantized, q)
	}
	slices.SortFunc(m.Quantized, func(a, b sample.Quantized) int { return strings.Compare(a.Name, b.Name) })
	return withGolden(t, m)
}

func normal(r *rand.Rand, shape ...int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// ceil is the number of groups in n columns; a group of 0 is all of them.
func ceil(n, group int) int {
	if group == 0 {
		return 1
	}
	return (n + group - 1) / group
}

// TestForgedBeside changes the data stored next to the codes, one thing at a time, with every digest corrected and
// golden outputs unchanged: no checkpoint is needed to see that run would compute something else.
func TestForgedBeside(t *testing.T) {
	m := besideModel(t)
	if r := run(t, file(t, m), Options{}); !r.OK || r.Coverage.Scaled != len(m.Quantized) ||
		r.Coverage.Packed != len(m.Quantized) {
		t.Fatalf("%+v %v", r.Coverage, failed(r))
	}
	seen := func(what string) {
		t.Helper()
		r := run(t, file(t, m), Options{})
		bad := failed(r)
		if len(bad) == 0 {
			t.Errorf("%s: %s", what, r.Verdict())
			return
		}
		if bad[0].Level != Kernel && bad[0].Level != Logits && bad[0].Rule != "F8" {
			t.Errorf("%s: %v", what, bad[0])
		}
	}
	for i := range m.Quantized {
		q := &m.Quantized[i]
		if strings.HasPrefix(q.Name, "model.embed") {
			continue // TestForgedEmbedding
		}
		honest := *q
		for at := 0; at < len(q.Scales); at += len(q.Scales)/2 + 1 {
			q.Scales = slices.Clone(honest.Scales)
			q.Scales[at] *= 2
			seen(fmt.Sprintf("%s: scale %d doubled", q.Name, at))
			if q.Scale.Signed {
				q.Scales[at] = -honest.Scales[at]
				seen(fmt.Sprintf("%s: sign of scale %d", q.Name, at))
			}
			q.Scales = honest.Scales
			if q.Zeros != nil {
				q.Zeros = slices.Clone(honest.Zeros)
				q.Zeros[at]++
				seen(fmt.Sprintf("%s: zero point %d", q.Name, at))
				q.Zeros = honest.Zeros
			}
			if q.Minima != nil {
				q.Minima = slices.Clone(honest.Minima)
				q.Minima[at] /= 2
				seen(fmt.Sprintf("%s: minimum %d", q.Name, at))
				q.Minima = honest.Minima
			}
		}
		if q.Order != nil {
			q.Order = slices.Clone(honest.Order)
			q.Order[3], q.Order[40] = q.Order[40], q.Order[3]
			seen(q.Name + ": two columns swapped")
			q.Order = nil
			seen(q.Name + ": no order")
		}
		if *q = honest; q.Zeros != nil {
			q.Zeros = nil
			seen(q.Name + ": no zero points")
		}
		if *q = honest; q.Minima != nil {
			q.Minima = nil
			seen(q.Name + ": no minima")
		}
		if *q = honest; q.Scale.DType == packed.ScaleF16 { // the same bytes, called otherwise
			q.Scale.DType = packed.ScaleBF16
			q.Scales = nil
			for _, x := range honest.Scales {
				half, err := honest.Scale.AppendScale(nil, x)
				if err != nil {
					t.Fatal(err)
				}
				q.Scales = append(q.Scales, math.Float32frombits(uint32(half[0])<<16|uint32(half[1])<<24))
			}
			seen(q.Name + ": F16 called BF16")
		}
		*q = honest
	}
	for _, a := range []packed.Activation{{Kind: packed.ActivationToken}, {Kind: packed.ActivationGroup, Size: 64},
		{Kind: packed.ActivationGroup, Size: 128}, {Kind: packed.ActivationToken16}} {
		m.Activation = a
		seen("activation scales " + a.String())
	}
}

// TestForgedEmbedding: in a quantized embedding, the rows of tokens in golden sequences are compared, and the report
// says how many they are.
func TestForgedEmbedding(t *testing.T) {
	m := besideModel(t)
	honest := run(t, file(t, m), Options{})
	if c := honest.Coverage; c.Vocab != 301 || c.Tokens < 40 || c.Tokens > c.Positions {
		t.Fatalf("%+v", c)
	}
	i := slices.IndexFunc(m.Quantized,
		func(q sample.Quantized) bool { return strings.HasPrefix(q.Name, "model.embed") })
	q, noticed := &m.Quantized[i], 0
	scales := q.Scales
	rows := []int{1, 5, 77, 150, 200, 300} // token 1 begins every sequence
	for _, row := range rows {
		q.Scales = slices.Clone(scales)
		q.Scales[2*row] *= 2
		if !run(t, file(t, m), Options{}).OK {
			noticed++
		} else if row == 1 {
			t.Error("the embedding of the first token is another one")
		}
	}
	if noticed == len(rows) {
		t.Error("every row is noticed: say so instead of the number of tokens")
	}
	r := honest.Coverage.list()
	if want := fmt.Sprintf("embeddings of %d of 301 tokens", honest.Coverage.Tokens); !slices.Contains(r, want) {
		t.Errorf("%q: not %q", r, want)
	}
}

// TestForgedExpert: only experts that golden products choose are compared, and no others count.
func TestForgedExpert(t *testing.T) {
	const experts, rows = 16, 40
	r := rand.New(rand.NewPCG(5, 5))
	q := sample.Quantized{
		Name:   "experts",
		Matrix: pack.NewMatrix(pack.Shape{M: experts * rows, K: 64}, pack.Int4),
		Layout: pack.Spec{Name: "vnni4i", Alphabet: "int4"},
		Scale:  packed.Scale{Kind: packed.ScaleGroup, Group: 32}, Experts: experts, Quantizer: "test",
	}
	for i := range q.Matrix.Codes {
		q.Matrix.Codes[i] = int8(r.IntN(16) - 8)
	}
	for range experts * rows * 2 {
		q.Scales, q.Zeros = append(q.Scales, 1+r.Float32()), append(q.Zeros, int8(r.IntN(5)-2))
	}
	m := withGolden(t, &sample.Model{Quantized: []sample.Quantized{q}, Recipe: packed.Recipe{Golden: "kernel"}})
	c := run(t, file(t, m), Options{}).Coverage
	noticed := 0
	for x := range experts {
		zeros := slices.Clone(q.Zeros)
		zeros[(x*rows+7)*2+1]++
		m.Quantized[0].Zeros = zeros
		if !run(t, file(t, m), Options{}).OK {
			noticed++
		}
	}
	if noticed == 0 || c.Rows != int64(noticed*rows) || c.AllRows != experts*rows || c.Scaled != 0 || c.Packed != 1 {
		t.Errorf("%d experts are compared; %+v", noticed, c)
	}
}

// TestForgedAgainstSource: zero points, orders and activation scales that no conversion of the checkpoint makes do not
// pass where there are no golden outputs that contradict them.
func TestForgedAgainstSource(t *testing.T) {
	source := bare(t, "F32", 40, 64, func(i int) float32 { return float32(i%3 - 1) })
	f, err := packed.Open(tinymodel.Converted(t, source,
		packed.Recipe{Quant: "absmean", Scale: "row", Layout: "vnni4i", Golden: "none", AllowLossy: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := &f.Manifest().Packed[0]
	data, err := packed.PackedBytes(f, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		t.Fatal(err)
	}
	honest := sample.Quantized{Name: e.Name, Matrix: pack.NewMatrix(e.MatrixShape(), pack.Ternary), Layout: e.Layout,
		Scale: e.Scale, Quantizer: e.Quantizer}
	if err := l.Unpack(honest.Matrix, data); err != nil {
		t.Fatal(err)
	}
	if honest.Scales, err = packed.Scales(f, e); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(m *sample.Model)
		rule   string
	}{
		"as converted": {func(*sample.Model) {}, ""},
		"zero points":  {func(m *sample.Model) { m.Quantized[0].Zeros = slices.Repeat([]int8{1}, 40) }, "F23"},
		"order": {func(m *sample.Model) {
			for k := range 64 {
				m.Quantized[0].Order = append(m.Quantized[0].Order, int32(63-k))
			}
		}, "F24"},
		"activation scales": {func(m *sample.Model) {
			m.Activation = packed.Activation{Kind: packed.ActivationGroup, Size: 32}
		}, "F22"},
		"activation scales of the recipe": {func(m *sample.Model) { m.Recipe.Activation = "group:64" }, "F22"},
		"activations of 16 bits": {func(m *sample.Model) {
			m.Activation = packed.Activation{Kind: packed.ActivationToken16}
		}, "F22"},
		"activation scales as in the recipe": {func(m *sample.Model) {
			m.Recipe.Activation, m.Activation = "group:64", packed.Activation{Kind: packed.ActivationGroup, Size: 64}
		}, ""},
	} {
		m := &sample.Model{Quantized: []sample.Quantized{honest}, Recipe: f.Manifest().Recipe,
			Sources: []string{source}}
		c.change(m)
		path := filepath.Join(t.TempDir(), "forged")
		m.Write(t, path)
		bad := failed(run(t, path, Options{Source: source}))
		if c.rule == "" && len(bad) > 0 ||
			c.rule != "" && (len(bad) != 1 || bad[0].Level != Source || bad[0].Rule != c.rule) {
			t.Errorf("%s: %v", name, bad)
		}
	}
}

// TestScaledBy: tensors that no logits depend on are not counted, nor experts.
func TestScaledBy(t *testing.T) {
	d, err := model.Parse([]byte(besideConfig), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const used = "model.layers.0.mlp.down_proj.weight"
	n := scaledBy(d, []packed.Entry{{Name: used, Shape: []int{64, 96}}, {Name: used, Shape: []int{4, 64, 96}},
		{Name: "other", Shape: []int{64, 96}}, {Name: packed.ScreenName, Shape: []int{301, 64}}})
	if n != 2 {
		t.Errorf("%d tensors", n)
	}
}

// TestActivationOf: the choice of conversion, written down again.
func TestActivationOf(t *testing.T) {
	entry := func(quantizer, alphabet string, group int) packed.Entry {
		return packed.Entry{Name: "w", Quantizer: quantizer, Layout: pack.Spec{Alphabet: alphabet},
			Scale: packed.Scale{Group: group}}
	}
	screen := entry("int8", "int8", 0)
	screen.Name = packed.ScreenName
	for _, c := range []struct {
		entries []packed.Entry
		want    string
	}{
		{nil, "token"},
		{[]packed.Entry{screen}, "token"},
		{[]packed.Entry{entry("int8", "int8", 0)}, "group:32"},
		{[]packed.Entry{entry("int4", "int4", 128), entry("int8", "int8", 0)}, "group:64"},
		{[]packed.Entry{entry("int4", "int4", 128), entry("int4", "int4", 32)}, "group:32"},
		{[]packed.Entry{entry("int4", "int4", 64), entry("absmean", "ternary", 0)}, "token"},
		{[]packed.Entry{entry("import-codes", "ternary", 128)}, "token"},
		{[]packed.Entry{entry("import-codes", "int4", 128)}, "group:64"},
		{[]packed.Entry{entry("int2-elastic", "int2odd", 0)}, "token"},
	} {
		if got := activationOf(c.entries); got != c.want {
			t.Errorf("%+v: %s, want %s", c.entries, got, c.want)
		}
	}
}
