package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// on makes options with a plain device that has some memory, and some layers of the model.
func (o Options) on(memory, layers int) Options {
	o.Device, o.DeviceLayers = "plain", layers
	o.OpenDevice = func(string) (device.Backend, error) {
		return plaindevice.New(plaindevice.Options{Memory: memory, MaxAlloc: roomy, MaxRange: roomy}), nil
	}
	return o
}

// roomy is memory for all of tiny.
const roomy = 1 << 30

// taken is the memory of a device with some of the layers of tiny.
func taken(t *testing.T, o Options, layers int) int {
	t.Helper()
	return engine(t, tiny(t), o.on(roomy, layers)).device.pass.Bytes()
}

// TestDeviceLayersFit: as many layers are on a device as fit with the KV cache of the options, to the byte; the logits
// are those of the CPU.
func TestDeviceLayersFit(t *testing.T) {
	o := forkedOptions
	want := forked(t, engine(t, tiny(t), o))
	three, four := taken(t, o, 3), taken(t, o, 4)
	for _, c := range []struct{ memory, layers int }{{three, 3}, {four - 1, 3}, {four, 4}, {roomy, 6}} {
		e := engine(t, tiny(t), o.on(c.memory, 0))
		if n, all := e.DeviceLayers(); n != c.layers || all != 6 {
			t.Errorf("%d of %d layers fit in %d bytes; want %d", n, all, c.memory, c.layers)
		}
		for j, row := range forked(t, e) {
			if !slices.Equal(row, want[j]) {
				t.Errorf("%d layers: logits %d differ", c.layers, j)
			}
		}
		computes(t, e)
	}
}

// TestDeviceLayersCacheFits: with a KV cache that takes what is free, as many layers are on the device as fit beside
// one context, and the cache takes what they leave. The host has room for the cache of all layers, as without a device.
func TestDeviceLayersCacheFits(t *testing.T) {
	const context, page, layers, more = 256, 32, 2, 5
	o := Options{Context: context, Sequences: 64, CacheTokens: CacheFits, Page: page}
	one := o
	one.Sequences = 1
	d := engine(t, tiny(t), one).desc
	const align = 256 // at most, of keys and of values of a layer
	memory := taken(t, one, layers) + 2*layers*(more*4*d.KVHeads*page*d.HeadDim+align)
	e := engine(t, tiny(t), o.on(memory, 0))
	if n, _ := e.DeviceLayers(); n != layers {
		t.Errorf("%d layers on the device; want %d", n, layers)
	}
	if n, _ := e.Pages(); n != context/page+more {
		t.Errorf("%d pages; want %d", n, context/page+more)
	}
	o.CacheTokens = context + more*page
	if got, want := e.MemoryBytes(), engine(t, tiny(t), o).MemoryBytes(); got != want {
		t.Errorf("%d bytes of the host; the CPU alone takes %d", got, want)
	}
}

// TestDeviceLayersNonFinite: what overflows at the end of the last layer of the CPU is the error of the layer that
// reads it, which the device computes, as it is without a device.
func TestDeviceLayersNonFinite(t *testing.T) {
	v, o := tiny(t), Options{Context: 64}
	v.set(t, "model.layers.1.mlp.down_proj.weight.scale", 0, 3e38)
	for _, o := range []Options{o, o.on(roomy, 4)} {
		e := engine(t, v, o)
		e.weights.blocks[1].ffnPostNorm = norm{weights: ones(e.desc.Hidden), eps: 1e-6} // its mean square overflows
		nonFinite(t, e, "attention of layer 2", 0)
	}
}

// TestDeviceLayersRefused: layers that do not fit are an error that says so; with device.Auto the CPU computes, and a
// line says why.
func TestDeviceLayersRefused(t *testing.T) {
	o := Options{Context: 64}
	least := taken(t, o, 1)
	for _, c := range []struct {
		memory, layers int
		kind           error
		want           string
	}{
		{least - 1, 0, pack.ErrLimit, "the last layer and the output head alone: "},
		{least - 1, 1, pack.ErrLimit, "the last layer and the output head alone: "},
		{least, 2, pack.ErrLimit, "2 of 6 layers (without --device-layers it is as many as fit): "},
		{least, -1, pack.ErrUnsupported, "device layers is -1"},
	} {
		auto, told := o.on(c.memory, c.layers), ""
		if _, err := New(tiny(t), auto); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes, %d layers: %v", c.memory, c.layers, err)
		}
		if c.layers < 0 {
			continue
		}
		auto.Device, auto.Notice = device.Auto, func(line string) { told = line }
		n, all := engine(t, tiny(t), auto).DeviceLayers()
		if n != 0 || all != 6 || !strings.HasPrefix(told, "the CPU computes: ") || !strings.Contains(told, c.want) {
			t.Errorf("%d of %d layers; told %q", n, all, told)
		}
	}
	if n, all := engine(t, tiny(t), o.on(least, 0)).DeviceLayers(); n != 1 || all != 6 {
		t.Errorf("%d of %d layers", n, all)
	}
}

// TestDeviceLayersHalved: where the memory that a device says is free cannot be allocated, half of the layers are
// tried, down to one, unless a number was asked for; other errors are not tried again.
func TestDeviceLayersHalved(t *testing.T) {
	errOther := errors.New("another")
	for _, c := range []struct {
		asked, fails int // allocations fail on so many devices that are opened
		with         error
		layers       int
		want         error
	}{
		{0, 0, pack.ErrLimit, 6, nil},
		{0, 1, pack.ErrLimit, 3, nil},
		{0, 2, pack.ErrLimit, 1, nil},
		{0, 3, pack.ErrLimit, 0, pack.ErrLimit},
		{4, 1, pack.ErrLimit, 0, pack.ErrLimit},
		{0, 1, errOther, 0, errOther},
	} {
		opened := 0
		o := Options{Context: 64, Device: "plain", DeviceLayers: c.asked}
		o.OpenDevice = func(string) (device.Backend, error) {
			opened++
			fails := opened <= c.fails
			return plaindevice.New(plaindevice.Options{Fail: func(call string) error {
				if fails && call == "Alloc" {
					return c.with
				}
				return nil
			}}), nil
		}
		e, err := New(tiny(t), o)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		if n, _ := e.DeviceLayers(); n != c.layers || opened != c.fails+1 {
			t.Errorf("%+v: %d layers, %d devices opened", c, n, opened)
		}
		e.Close()
	}
}

// TestDeviceLayersGone: where a device that has too little memory does not open again, the error says both.
func TestDeviceLayersGone(t *testing.T) {
	errGone, opened := errors.New("gone"), 0
	o := Options{Context: 64, Device: "plain", OpenDevice: func(string) (device.Backend, error) {
		if opened++; opened > 1 {
			return nil, errGone
		}
		return plaindevice.New(plaindevice.Options{Fail: func(call string) error {
			if call == "Alloc" {
				return pack.ErrLimit
			}
			return nil
		}}), nil
	}}
	_, err := New(tiny(t), o)
	if !errors.Is(err, pack.ErrLimit) || !errors.Is(err, errGone) || opened != 2 {
		t.Errorf("%d devices opened: %v", opened, err)
	}
}

// lacks reports whether an NVIDIA GPU refuses a model, as it has no kernel for it; other devices have them all.
func lacks(t *testing.T, name string, o Options) bool {
	if name != "cuda" {
		return false
	}
	e, err := New(tiny(t), o)
	if err == nil {
		e.Close()
		return false
	}
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "has no kernel for that") {
		t.Fatal(err)
	}
	return true
}

// TestDeviceCaches: with a KV cache of each format, forks, truncation, resumed pages and batches give the logits of the
// CPU, and what fits is counted to the byte.
func TestDeviceCaches(t *testing.T) {
	for _, cache := range caches[1:] {
		o := forkedOptions
		o.Cache = cache
		want := forked(t, engine(t, tiny(t), o))
		all := together(t, engine(t, tiny(t), Options{Cache: cache, Sequences: 4}), 7)
		for _, name := range devices {
			on := o
			on.Device = name
			if lacks(t, name, on) {
				continue
			}
			e := engine(t, tiny(t), on)
			for i, row := range forked(t, e) {
				if !slices.Equal(row, want[i]) {
					t.Errorf("%s, %s: logits %d differ", name, cache, i)
				}
			}
			computes(t, e)
			if slow(name) {
				continue
			}
			on.Sequences, on.Context, on.Page = 4, 0, 0
			compareRows(t, together(t, engine(t, tiny(t), on), 7), all)
		}
		three, four := taken(t, o, 3), taken(t, o, 4)
		for _, c := range []struct{ memory, layers int }{{four - 1, 3}, {four, 4}} {
			if n, _ := engine(t, tiny(t), o.on(c.memory, 0)).DeviceLayers(); n != c.layers || three >= four {
				t.Errorf("%s: %d layers fit in %d bytes; want %d", cache, n, c.memory, c.layers)
			}
		}
	}
}
