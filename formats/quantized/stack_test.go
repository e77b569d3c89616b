package quantized_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// soundExperts returns modules e0, e1 and e2 of the same form.
func soundExperts(config string) files {
	f := files{}
	for e := range 3 {
		for name, x := range sound(config) {
			x.Name = fmt.Sprintf("e%d", e) + strings.TrimPrefix(name, "x")
			x.data = slices.Clone(x.data)
			f[x.Name] = x
		}
	}
	return f
}

// openStack opens them as a stack and decodes everything.
func (f files) openStack(config string) (s quantized.Stack, codes []int8, err error) {
	scheme, err := quantized.Parse([]byte(config), f)
	if err != nil {
		return nil, nil, err
	}
	var layers []*quantized.Layer
	for e := range 3 {
		l, err := scheme.Layer(fmt.Sprintf("e%d", e), f.lookup)
		if err != nil || l == nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	if err := quantized.Stackable(layers); err != nil {
		return nil, nil, err
	}
	if s, err = quantized.OpenStack(layers, f.read); err != nil {
		return nil, nil, err
	}
	l := s.Layer()
	codes = make([]int8, s.Rows()*l.Columns)
	for e, m := range s {
		rows := codes[e*l.Rows*l.Columns:][:l.Rows*l.Columns]
		if err := s.Decode(rows, e*l.Rows, f[m.Layer.Words].data); err != nil {
			return nil, nil, err
		}
	}
	return s, codes, nil
}

// singles are the formats with one module per expert.
var singles = slices.DeleteFunc(slices.Clone(formats),
	func(config string) bool {
		return config == stackConfig || config == ossConfig || slices.Contains(floatForms, config)
	})

// TestStack: a stack returns the contents of its matrices in sequence.
func TestStack(t *testing.T) {
	for _, config := range singles {
		f := soundExperts(config)
		// make the second one another matrix
		for _, name := range []string{"e1.qweight", "e1.weight_packed", "e1.weight"} {
			for i := range f[name].data {
				f[name].data[i] ^= byte(i%4/2) << 1
			}
		}
		s, codes, err := f.openStack(config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		checkStack(t, config, s)
		for e := range 3 {
			m, err := f.open(config, fmt.Sprintf("e%d", e))
			if err != nil {
				t.Fatal(err)
			}
			own, err := read(m)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(codes) / 3; !slices.Equal(codes[e*n:][:n], own) {
				t.Errorf("%s: the codes of expert %d differ", config, e)
			}
			if n := len(s.Scales()) / 3; string(s.Scales()[e*n:][:n]) != string(m.Scales) {
				t.Errorf("%s: the scales of expert %d differ", config, e)
			}
		}
	}
}

// checkStack compares the lengths of everything a stack returns.
func checkStack(t *testing.T, config string, s quantized.Stack) {
	t.Helper()
	l := s.Layer()
	units := s.Rows() * l.Groups()
	if z := s.Zeros(); z != nil && len(z) != units || len(s.ScaleValues()) != units ||
		len(s.Scales()) != units*int(l.ScaleOf.Size()) {
		t.Errorf("%s: %d scales in %d bytes and %d zero points for %d units", config, len(s.ScaleValues()),
			len(s.Scales()),
			len(z), units)
	}
	if o := s.Order(); o != nil && len(o) != 4*l.Columns*len(s) {
		t.Errorf("%s: an order of %d bytes for %d matrices of %d columns", config, len(o), len(s), l.Columns)
	}
}

// groupsConfig declares wider groups for one expert.
const groupsConfig = `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,"sym":false,` +
	`"dynamic":{"+:e1$":{"group_size":16}}}}`

// TestStackRefused: experts of one block have the same form; the error names the one that differs.
func TestStackRefused(t *testing.T) {
	for what, c := range map[string]struct {
		config string
		change func(f files)
		want   string
	}{
		"no such codes": {awqConfig, func(f files) { delete(f, "e1.qzeros") }, `"e1.qzeros" is missing`},
		"other scales": {awqConfig, func(f files) {
			f.add("e2.scales", safetensors.BF16, make([]byte, 32), 2, 8)
		}, `"e2"`},
		"other groups": {groupsConfig, func(f files) {
			delete(f, "e1.g_idx")
			f.add("e1.scales", safetensors.F32, floats(8, 1, 1), 1, 8)
			f.add("e1.qzeros", "I32", make([]byte, 4), 1, 1)
		}, `"e1": 8 rows of 16 columns in groups of 16`},
		"a stack in a stack": {mlxConfig, func(f files) {
			for name, x := range sound(stackConfig) {
				f.add("e2"+strings.TrimPrefix(name, "x"), x.DType, x.data, x.Shape...)
			}
		}, `"e2"`},
		"not finite": {gptqConfig, func(f files) { copy(f["e2.scales"].data, floats(1, float32(math.Inf(1)), 0)) },
			`"e2": row 0: scale of group 0 is +Inf`},
		"bad order": {gptqConfig, func(f files) { f["e1.g_idx"].data[0] = 7 }, `"e1`},
	} {
		f := soundExperts(c.config)
		c.change(f)
		if _, _, err := f.openStack(c.config); !wellSaid(err, c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

// FuzzStack: for any tensor and shape of one expert, the experts form a stack of consistent size, or give an error with
// a class.
func FuzzStack(f *testing.F) {
	for i := range singles {
		f.Add(uint8(i), []byte{0x55, 0}, uint8(5), uint8(0), uint8(0))
		f.Add(uint8(i), []byte{}, uint8(2), uint8(1), uint8(8))
	}
	f.Fuzz(func(t *testing.T, format uint8, data []byte, which, dim, more uint8) {
		config := singles[int(format)%len(singles)]
		fs := soundExperts(config)
		names := slices.Sorted(maps.Keys(fs))
		name := names[int(which)%len(names)]
		x := fs[name]
		x.Shape = slices.Clone(x.Shape)
		if len(x.Shape) > 0 {
			x.Shape[int(dim)%len(x.Shape)] += int(more)
		}
		n := x.DType.Size()
		for _, d := range x.Shape {
			n *= int64(d)
		}
		x.data = append(x.data, make([]byte, max(0, n-int64(len(x.data))))...)
		copy(x.data, data)
		fs[name] = x
		s, _, err := fs.openStack(config)
		if err != nil {
			if !wellSaid(err, "e") {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		if s != nil {
			checkStack(t, config, s)
		}
	})
}
