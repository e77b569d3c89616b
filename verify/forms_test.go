package verify

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// everyForm is a file of weights alone with all data that may be stored next to codes: scales of every type, signed
// ones, zero points, orders of columns, experts, and activation scales per group.
func everyForm(t testing.TB) *sample.Model {
	r := rand.New(rand.NewPCG(5, 2))
	group := func(n int, dtype packed.ScaleType, signed bool) packed.Scale {
		return packed.Scale{Kind: packed.ScaleGroup, Group: n, DType: dtype, Signed: signed}
	}
	type has struct{ zero, order bool }
	form := func(name string, l pack.Spec, experts int, shape pack.Shape, s packed.Scale, with has) sample.Quantized {
		a, err := pack.FindAlphabet(l.Alphabet)
		if err != nil {
			t.Fatal(err)
		}
		q := sample.Quantized{Name: name, Layout: l, Scale: s, Experts: experts, Quantizer: "test"}
		k := shape.K
		q.Matrix = pack.NewMatrix(pack.Shape{M: max(experts, 1) * shape.M, K: k}, a)
		for i := range q.Matrix.Codes {
			q.Matrix.Codes[i] = a.Values[r.IntN(len(a.Values))]
		}
		units := 1
		if s.Kind == packed.ScaleGroup {
			units = (k + s.Group - 1) / s.Group
		}
		for range units * q.Matrix.M {
			x := float32(math.Ldexp(1, r.IntN(9)-4))
			if s.DType != packed.ScaleE8M0 {
				x *= 1 + float32(r.IntN(128))/128
			}
			if s.Signed && r.IntN(2) == 0 {
				x = -x
			}
			q.Scales = append(q.Scales, x)
			if with.zero {
				q.Zeros = append(q.Zeros, int8(r.IntN(16)-8))
			}
		}
		for range max(experts, 1) {
			for _, i := range r.Perm(k) {
				if with.order {
					q.Order = append(q.Order, int32(i))
				}
			}
		}
		return q
	}
	int4, e2m1 := pack.Spec{Name: "vnni4i", Alphabet: "int4"}, pack.Spec{Name: "vnni4i", Alphabet: "e2m1"}
	int8, iq4nl := pack.Spec{Name: "vnni4", Alphabet: "int8"}, pack.Spec{Name: "vnni4i", Alphabet: "iq4nl"}
	minima := form("f", int4, 0, pack.Shape{M: 20, K: 100}, group(32, packed.ScaleF16, true), has{order: true})
	minima.Minima = slices.Repeat([]float32{-1.5, 0.25, 3, -65504}, len(minima.Scales)/4)
	return withGolden(t, &sample.Model{
		Quantized: []sample.Quantized{
			form("a", int4, 0, pack.Shape{M: 33, K: 100}, group(32, packed.ScaleF16, true), has{}),
			form("b", int4, 0, pack.Shape{M: 20, K: 100}, group(64, packed.ScaleBF16, false),
				has{zero: true, order: true}),
			form("c", e2m1, 0, pack.Shape{M: 20, K: 70}, group(32, packed.ScaleE8M0, false), has{order: true}),
			form("d", int8, 0, pack.Shape{M: 9, K: 70},
				packed.Scale{Kind: packed.ScaleRow, DType: packed.ScaleF32, Signed: true}, has{zero: true}),
			form("e", int4, 3, pack.Shape{M: 33, K: 70}, group(32, packed.ScaleF16, true),
				has{zero: true, order: true}),
			minima,
			form("g", iq4nl, 0, pack.Shape{M: 33, K: 100}, group(32, packed.ScaleF16, true), has{}),
			form("h", pack.Spec{Name: "vnni4p", Alphabet: "int6"}, 0, pack.Shape{M: 33, K: 100},
				group(32, packed.ScaleF16, true), has{}),
			form("i", pack.Spec{Name: "vnni4p", Alphabet: "int5"}, 3, pack.Shape{M: 20, K: 70},
				group(32, packed.ScaleF16, true), has{zero: true}),
			form("j", pack.Spec{Name: "vnni4p", Alphabet: "int3"}, 0, pack.Shape{M: 9, K: 70},
				packed.Scale{Kind: packed.ScaleRow, DType: packed.ScaleF32, Signed: true}, has{}),
		},
		Activation: packed.Activation{Kind: packed.ActivationGroup, Size: 32},
		Recipe:     packed.Recipe{Golden: "kernel"},
	})
}

// TestEveryForm: such a file passes all levels, a flipped bit anywhere is found, and a forgery with all digests
// corrected is found as far as rules or golden products tell: products leave out scales and orders (GOLDEN).
func TestEveryForm(t *testing.T) {
	path := file(t, everyForm(t))
	if bad := failed(run(t, path, Options{})); len(bad) > 0 {
		t.Fatal(bad)
	}
	s := newSealer(t, path)
	for _, c := range []struct {
		tensor string
		change func(b []byte)
		level  Level
		rule   string
	}{
		{"b.zero", func(b []byte) { b[0] ^= 1 }, Kernel, ""},
		{"d.zero", func(b []byte) { b[0] ^= 1 }, Kernel, ""},
		{"b.order", func(b []byte) { copy(b[:4], b[4:8]) }, Codes, "F24"},
		{"e.order", func(b []byte) { b[len(b)-1] = 1 }, Codes, "F24"},
		{"c.scale", func(b []byte) { b[0] = 255 }, Codes, "F9"},
		{"b.scale", func(b []byte) { b[1] ^= 0x80 }, Codes, "F9"}, // not signed
		{"f.min", func(b []byte) { b[0], b[1] = 0, 0x7c }, Codes, "F25"},
		{"f.min", func(b []byte) { b[2], b[3] = 1, 0xfc }, Codes, "F25"},
	} {
		b := bytes.Clone(s.good)
		p := s.tensor(c.tensor)
		c.change(b[p.begin:p.end])
		write(t, path, s.seal(b))
		bad := failed(run(t, path, Options{}))
		if len(bad) == 0 || bad[0].Level != c.level || c.rule != "" && bad[0].Rule != c.rule {
			t.Errorf("%s changed: %v, want a failure at level %s %s", c.tensor, bad, c.level, c.rule)
		}
	}
	write(t, path, s.good)
	everyBit(t, path, 97, 211)
}

// TestImportedForm: imported models with zero points and with an order of columns pass all levels, their checkpoint
// included. A forged scale, zero point or column with all digests corrected is found by golden outputs alone.
func TestImportedForm(t *testing.T) {
	for dir, c := range map[string]struct {
		activation string
		suffix     string
	}{
		"gptq-b4-asym-g128-v1": {"group:64", packed.ZeroSuffix},
		"gptq-b4-sym-g32-desc": {"group:32", packed.OrderSuffix},
	} {
		source := shared.Path(t, "data/packed/"+dir)
		path := tinymodel.Converted(t, source, packed.Recipe{})
		if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
			t.Fatal(dir, bad)
		}
		s := newSealer(t, path)
		if a := s.parsed.Activation.String(); a != c.activation {
			t.Errorf("%s: activation scales %s", dir, a)
		}
		for _, suffix := range []string{packed.ScaleSuffix, c.suffix} {
			b := bytes.Clone(s.good)
			p := s.tensor(s.parsed.Packed[0].Name + suffix)
			if suffix == packed.OrderSuffix {
				swap(b[p.begin:p.end], 0, (p.end-p.begin)/4-1)
			} else {
				b[p.begin] ^= 4
			}
			write(t, path, s.seal(b))
			if bad := failed(run(t, path, Options{})); len(bad) == 0 ||
				bad[0].Level != Kernel && bad[0].Level != Logits {
				t.Errorf("%s: %s changed: %v", dir, p.name, bad[:min(1, len(bad))])
			}
		}
	}
}

// swap exchanges two elements of an order.
func swap(b []byte, i, j int) {
	var x [4]byte
	copy(x[:], b[4*i:])
	copy(b[4*i:4*i+4], b[4*j:4*j+4])
	copy(b[4*j:], x[:])
}
