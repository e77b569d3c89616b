package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// TestLongestPlanes: rows of as many columns as int8 weights may have, all codes and activations at their ends. The
// int32 sums of each plane are exact, and so is the code 32512 = 255·127 + 127.
func TestLongestPlanes(t *testing.T) {
	const rows, columns = 3, 132104 // (2³¹ − 1) / (128·127)
	c := pack.NewMatrix(pack.Shape{M: rows, K: columns}, pack.Int8)
	signs := [rows]int8{127, -127, -128}
	for i := range c.Codes {
		c.Codes[i] = signs[i/columns]
	}
	layout, data := inVNNI4(t, c)
	e := &Engine{activation: packed.Activation{Kind: packed.ActivationToken16}}
	x := [2][]float32{make([]float32, columns), make([]float32, columns)}
	q := e.newActivations(len(x), columns)
	for i := range columns {
		x[0][i], x[1][i] = 3, -3
	}
	for v := range x {
		if !e.planes().quantize(q, v, x[v], 3) {
			t.Fatal("3 is not finite")
		}
	}
	ran := 0
	for _, k := range kernel.For(layout.Spec()) {
		w, err := kernel.BindWith(k, layout, c.Shape, data, 0)
		if errors.Is(err, pack.ErrUnsupported) {
			continue // a kernel for shorter rows
		}
		if err != nil {
			t.Fatal(err)
		}
		ran++
		if err := w.Scale(kernel.Scales{}, tensor.BlockScales); err != nil {
			t.Fatal(err)
		}
		f := &projection{in: columns}
		f.add(matrix{rows: rows, codes: w, scales: []float32{0.5}})
		p := product{projection: f, n: len(x), q: []*kernel.Activations{q}, planes: 2, wide: make([]float32, 4*rows),
			y: make([]float32, 2*rows), ldy: rows}
		p.Do(0, f.units)
		d := float32(3) / 32512
		for i, got := range p.y {
			code := int64(signs[i%rows]) * int64(1-2*(i/rows)) * 127 * columns
			want := float32(float32(code)*0.5) * float32(255*d)
			want += float32(float32(code)*0.5) * d
			if got != want {
				t.Errorf("kernel %v: vector %d, row %d: %v, want %v", k, i/rows, i%rows, got, want)
			}
		}
		w.Close()
	}
	if ran == 0 {
		t.Error("no kernel takes such rows")
	}
}

// tiny16 is the bundled model with activations of 16 bits.
func tiny16(t testing.TB) *view {
	v := tiny(t)
	v.manifest.Activation = packed.Activation{Kind: packed.ActivationToken16}
	return v
}

// TestPlanesAreTheSame: threads, chunks, batches and passes change no bit of the logits of activations of 16 bits,
// which are others than those of 8 bits.
func TestPlanesAreTheSame(t *testing.T) {
	v := tiny16(t)
	want := everything(t, engine(t, v, Options{Threads: 1}))
	for _, o := range []Options{{Threads: 7}, {Threads: 2, Batch: 1},
		{Threads: 3, Batch: 17, Context: 100}} {
		compareRows(t, everything(t, engine(t, v, o)), want)
	}
	for _, chunk := range race.Few(1, []int{7, 1000}) {
		compareRows(t, together(t, engine(t, v, Options{Threads: 2, Batch: 64, Sequences: 4}), chunk), want)
	}
	narrow := everything(t, engine(t, tiny(t), Options{Threads: 1}))
	if slices.Equal(narrow[2][1], want[2][1]) {
		t.Error("activations of 8 bits have the same logits")
	}
}

// TestDeviceRefusesPlanes: devices multiply activations of 8 bits; auto lets the CPU compute, and tells.
func TestDeviceRefusesPlanes(t *testing.T) {
	const what = "activations of 16 bits"
	if _, err := New(tiny16(t), Options{Device: "plain"}); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), what) {
		t.Errorf("a device: %v", err)
	}
	told := ""
	e := engine(t, tiny16(t), Options{Device: device.Auto, Notice: func(line string) { told = line }})
	if _, ok := e.DeviceInfo(); ok || !strings.Contains(told, what) {
		t.Errorf("told %q", told)
	}
}
