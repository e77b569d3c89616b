package calibrate

import (
	"encoding/binary"
	"math"
	"runtime/metrics"
	"testing"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// alike is a view in which all tensors are the same one.
type alike struct {
	packed.View
	data []byte
}

func (a alike) Tensor(string) (packed.Tensor, error) { return packed.Tensor{Data: a.data}, nil }

// TestExpertsMemory: the values of each form of experts take the place of those of the form before it, and nothing as
// large as an expert is made on the way.
func TestExpertsMemory(t *testing.T) {
	const rows, columns = 512, 64
	w := make([]float32, rows*columns)
	for i := range w {
		w[i] = float32(math.Sin(float64(i)))
	}
	x := Experts{Name: "x", Parts: []string{"a", "b", "c", "d"}}
	var forms []Form
	for _, rule := range []string{"int3", "int4"} {
		job := quantize.Job{Rule: rule, DType: quantize.F32, Kind: quantize.PerGroup, Group: 32,
			Shape: pack.Shape{M: len(x.Parts) * rows, K: columns}}
		forms = append(forms, Form{Jobs: map[string]quantize.Job{"x": job}, Measured: true})
	}
	p := &probe{ctx: t.Context(), view: alike{data: quantize.FloatBytes(w)}, forms: forms}
	p.Threads = 1
	others, err := p.room(x)
	if err != nil {
		t.Fatal(err)
	}
	before := largeObjects()
	for _, form := range forms {
		miss, err := p.formOf(x, form, others)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range others {
			worst := 0.0
			for i, v := range w {
				got := math.Float32frombits(binary.LittleEndian.Uint32(o.Data[4*i:]))
				worst = max(worst, math.Abs(float64(v-got)))
			}
			rule := form.Jobs["x"].Rule
			if most := map[string]float64{"int3": 0.3, "int4": 0.15}[rule]; miss <= 0 || worst == 0 || worst > most {
				t.Errorf("%s: expert %s has errors of up to %g, %g in all", rule, o.Name, worst, miss)
			}
		}
	}
	if n := largeObjects() - before; n >= uint64(len(x.Parts)) {
		t.Errorf("%d large objects for forms of %d experts", n, len(x.Parts))
	}
}

// largeObjects counts the objects of more than 32 KiB that were made so far; an expert of the test has 128 KiB.
func largeObjects() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs-by-size:bytes"}}
	metrics.Read(s)
	counts := s[0].Value.Float64Histogram().Counts
	return counts[len(counts)-1]
}
