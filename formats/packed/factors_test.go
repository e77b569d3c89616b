package packed

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// factored is an entry with scales and minima of type F16I8.
func factored() Entry {
	return Entry{Name: "w", Shape: []int{2, 512}, Min: true,
		Layout: pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name},
		Scale:  Scale{Kind: ScaleGroup, Group: 32, DType: ScaleF16I8, Signed: true}}
}

// TestFactors: scales and minima of two factors are read as their exact products, whole or by expert.
func TestFactors(t *testing.T) {
	for _, experts := range []int{0, 3} {
		for _, group := range []int{16, 32} {
			e := factored()
			if e.Scale.Group = group; experts > 0 {
				e.Shape = append([]int{experts}, e.Shape...)
			}
			if err := e.checkForm(); err != nil {
				t.Fatal(err)
			}
			var scales, minima []byte
			var want, least []float32
			for block := range max(experts, 1) * 2 * 2 {
				half := float16.Widen(uint16(0x0001 + block*0x0a03)) // from a subnormal number on
				integers, negative := make([]int8, 256/group), make([]int8, 256/group)
				for i := range integers {
					integers[i], negative[i] = int8(i*37+block-128), int8(-i)
					want = append(want, float32(float64(half)*float64(integers[i])))
					least = append(least, float32(float64(-half)*float64(negative[i])))
				}
				var err, err2 error
				scales, err = e.Scale.AppendFactors(scales, half, integers)
				minima, err2 = e.Scale.AppendFactors(minima, -half, negative)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
			}
			if shape, err := e.ScaleShape(); err != nil || product(shape) != len(scales) || len(shape) != len(e.Shape) {
				t.Errorf("shape %v for %d bytes: %v", shape, len(scales), err)
			}
			v := fakeView{"w" + ScaleSuffix: {Data: scales}, "w" + MinSuffix: {Data: minima}}
			got, err := Scales(v, &e)
			gotMinima, err2 := Minima(v, &e)
			if n, _ := e.ScaleCount(); err != nil || err2 != nil || len(want) != n*max(experts, 1) ||
				!slices.Equal(got, want) || !slices.Equal(gotMinima, least) || e.Groups() != 512/group {
				t.Errorf("%v, %v", err, err2)
			}
			n := len(want) / max(experts, 1)
			for x := range experts {
				got, err := ScalesOf(v, &e, x)
				if err != nil || !slices.Equal(got, want[x*n:][:n]) {
					t.Errorf("expert %d: %v", x, err)
				}
			}
			for _, bad := range []uint16{0x7c00, 0xfc00, 0x7e00} { // infinities and NaN
				scales[len(scales)-e.Scale.run()], scales[len(scales)-e.Scale.run()+1] = byte(bad), byte(bad>>8)
				if _, err := Scales(v, &e); !errors.Is(err, pack.ErrCorrupt) {
					t.Errorf("%x: %v", bad, err)
				}
			}
			v["w"+ScaleSuffix] = Tensor{Data: scales[1:]}
			if _, err := Scales(v, &e); !errors.Is(err, pack.ErrCorrupt) {
				t.Errorf("a byte less: %v", err)
			}
		}
	}
}

// TestFactorForms: such scales are signed, of groups of 16 or 32 columns in rows of whole runs.
func TestFactorForms(t *testing.T) {
	for what, change := range map[string]func(e *Entry){
		"not signed":         func(e *Entry) { e.Scale.Signed = false },
		"groups of 64":       func(e *Entry) { e.Scale.Group = 64 },
		"a scale per row":    func(e *Entry) { e.Scale.Kind, e.Scale.Group, e.Min = ScaleRow, 0, false },
		"a scale per tensor": func(e *Entry) { e.Scale.Kind, e.Scale.Group, e.Min = ScaleTensor, 0, false },
		"minima of eighths":  func(e *Entry) { e.Scale.DType = ScaleF16I8Eighths },
		"half a run":         func(e *Entry) { e.Shape = []int{2, 384} },
	} {
		e := factored()
		change(&e)
		if err := e.checkForm(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		_, _ = e.ScaleShape() // of an entry that is not checked
	}
	s := factored().Scale
	s.DType = ScaleF16I8Eighths
	data, err := s.AppendFactors(nil, 0x1p-24, []int8{1, 3, -5, 31, 124, 0, -128, 127})
	if want := []float32{0x1p-27, 0x3p-27, -0x5p-27, 0x1fp-27, 0x7cp-27, 0, -0x80p-27, 0x7fp-27}; err != nil ||
		!slices.Equal(s.Widened(data), want) {
		t.Errorf("eighths: %v, %v", s.Widened(data), err)
	}
	for what, c := range map[string]struct {
		half     float32
		integers int
	}{"an infinity": {float32(math.Inf(1)), 8}, "no float16": {1 + 0x1p-11, 8}, "seven integers": {1, 7}} {
		if _, err := s.AppendFactors(nil, c.half, make([]int8, c.integers)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.AppendScale(nil, 1); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a single scale: %v", err)
	}
	e := factored()
	for group, ok := range map[int]bool{8: false, 16: true, 24: false, 32: true} {
		e.Scale = Scale{Kind: ScaleGroup, Group: group, DType: ScaleF16}
		if err := e.checkForm(); (err == nil) != ok {
			t.Errorf("groups of %d: %v", group, err)
		}
	}
}
