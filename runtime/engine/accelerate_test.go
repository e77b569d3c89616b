package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// planted is the number of the call of the device "failing" that fails: 0 = none.
var planted struct {
	after atomic.Int64
	calls atomic.Int64
	names [1 << 12]string
}

var errPlanted = errors.New("planted")

func init() {
	device.Register(plaindevice.Driver("plain", plaindevice.Options{}))
	device.Register(plaindevice.Driver("narrow", plaindevice.Options{MaxRange: 192 << 10, MaxAlloc: 2 << 20}))
	device.Register(plaindevice.Driver("small", plaindevice.Options{Memory: 1 << 20}))
	device.Register(plaindevice.Driver("lacking", plaindevice.Options{Lacks: []device.Kernel{
		device.KernelHeads.With(device.CacheF16)}}))
	device.Register(plaindevice.Driver("no-top", plaindevice.Options{Lacks: []device.Kernel{device.KernelTop}}))
	device.Register(plaindevice.Driver("failing", plaindevice.Options{Fail: func(call string) error {
		n := planted.calls.Add(1)
		planted.names[n%int64(len(planted.names))] = call
		if after := planted.after.Load(); after > 0 && n == after {
			return errPlanted
		}
		return nil
	}}))
}

// computes fails the test unless the device of an engine computes.
func computes(t *testing.T, e *Engine) {
	t.Helper()
	if _, ok := e.DeviceInfo(); !ok {
		t.Fatal("the CPU computes")
	}
}

// devices are those on which all of this runs: in plain Go, or with the tag of drivers one of these in their place.
var devices = []string{"plain", "narrow"}

// driven reports whether a driver computes for a device: of a GPU, or one that emulates a GPU.
func driven(name string) bool {
	return !slices.Contains([]string{"cpu", "plain", "narrow", "no-top"}, name)
}

// slow reports whether a device gets fewer cases.
func slow(name string) bool { return driven(name) && !long.All }

// divisions are the numbers of layers of tiny that a device computes: as many as fit, which is all, half, one, and all
// but one.
var divisions = []int{0, 3, 1, 5}

// divisionsOn are those that a device is tried with.
func divisionsOn(name string) []int {
	switch {
	case name == device.CPU:
		return divisions[:1]
	case slow(name) || name == "narrow":
		return divisions[:2]
	}
	return divisions
}

// TestDeviceLogits: the steps of a device give the logits of the CPU, bit for bit, in one pass, in chunks and in
// batches, with all layers on the device or some.
func TestDeviceLogits(t *testing.T) {
	want := everything(t, engine(t, tiny(t), Options{}))
	for _, name := range devices {
		for _, layers := range divisionsOn(name) {
			t.Run(fmt.Sprintf("%s/%d", name, layers), func(t *testing.T) {
				o := Options{Device: name, DeviceLayers: layers, Context: 128}
				e := engine(t, tiny(t), o)
				computes(t, e)
				compareRows(t, everything(t, e), want)
				chunks := []int{7, 1, 1000}
				if slow(name) {
					chunks = chunks[:1]
				}
				o.Sequences, o.Batch = 4, 19
				for _, chunk := range chunks {
					e := engine(t, tiny(t), o)
					compareRows(t, together(t, e, chunk), want)
					computes(t, e)
				}
			})
		}
	}
}

// forked appends tokens to a text, forks it, truncates it and resumes its pages, and returns all logits.
func forked(t *testing.T, e *Engine) (rows [][]float32) {
	s := sequence(t, e)
	rows = append(rows, after(t, s, repeated(40, 1)))
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, after(t, f, repeated(9, 2)), after(t, s, repeated(3, 3)))
	held := s.Pages(s.Len())
	s.Truncate(20)
	rows = append(rows, after(t, s, repeated(30, 4)))
	s.Close()
	r, err := e.Resume(held, 33)
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, after(t, r, repeated(5, 5)), after(t, f, repeated(4, 6)), first(t, f, repeated(2, 7)))
	r.Close()
	f.Close()
	e.Release(held...)
	return rows
}

// repeated makes n token ids.
func repeated(n, salt int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 5 + (7*i+salt*(i+3)+i*i)%200
	}
	return ids
}

// after appends tokens and returns the logits after the last of them.
func after(t *testing.T, s *Sequence, tokens []int) []float32 {
	t.Helper()
	logits := make([]float32, s.e.desc.Vocab)
	if err := s.e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: tokens, Logits: logits}}); err != nil {
		t.Fatal(err)
	}
	return logits
}

// first appends tokens and returns the largest logit after the last of them, and its token.
func first(t *testing.T, s *Sequence, tokens []int) []float32 {
	t.Helper()
	c := Chunk{Seq: s, Tokens: tokens, Logits: make([]float32, s.e.desc.Vocab), Top: 1}
	if err := s.e.Forward(t.Context(), []Chunk{c}); err != nil {
		t.Fatal(err)
	}
	id := ArgMax(c.Logits)
	return []float32{c.Logits[id], float32(id)}
}

var forkedOptions = Options{Context: 128, Sequences: 4, Page: 32, Threads: 1}

// TestDevicePages: forks, truncation and resumed pages give the logits of the CPU.
func TestDevicePages(t *testing.T) {
	want := forked(t, engine(t, tiny(t), forkedOptions))
	for _, name := range devices {
		for _, layers := range divisionsOn(name) {
			o := forkedOptions
			o.Device, o.DeviceLayers = name, layers
			e := engine(t, tiny(t), o)
			got := forked(t, e)
			computes(t, e)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%s, %d layers: logits %d differ", name, layers, i)
				}
			}
		}
	}
}

// TestDeviceFails: whatever call of a device fails, opening the model is an error, or the text goes on with the same
// logits, and one line tells that the CPU computes. That holds with all layers on the device or some, and with a KV
// cache of floats or codes.
func TestDeviceFails(t *testing.T) {
	for layers, cache := range map[int]CacheType{0: CacheI8, 2: CacheF32} {
		o := forkedOptions
		o.Cache = cache
		want := forked(t, engine(t, tiny(t), o))
		o.Device, o.DeviceLayers = "failing", layers
		t.Run(fmt.Sprint(layers), func(t *testing.T) { deviceFails(t, o, want) })
	}
}

func deviceFails(t *testing.T, o Options, want [][]float32) {
	planted.after.Store(0)
	planted.calls.Store(0)
	e := engine(t, tiny(t), o)
	opened := planted.calls.Load()
	forked(t, e)
	all := planted.calls.Load()
	if all-opened < 40 {
		t.Fatalf("%d calls for all texts", all-opened)
	}
	names := slices.Clone(planted.names[:all+1])
	step, failed := int64(1), 0
	if !long.All {
		step = 1 + all/40
	}
	for at := int64(1); at <= all; at += step {
		var lines []string
		o.Notice = func(line string) { lines = append(lines, line) }
		planted.after.Store(at)
		planted.calls.Store(0)
		what := fmt.Sprintf("call %d of %d (%s)", at, all, names[at])
		e, err := New(tiny(t), o)
		if at <= opened {
			if !errors.Is(err, errPlanted) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := forked(t, e)
		if planted.calls.Load() < at { // fewer submits than the first time: how many depends on the time that they take
			e.Close()
			continue
		}
		failed++
		if len(lines) != 1 || !strings.Contains(lines[0], "planted") {
			t.Errorf("%s: told %q", what, lines)
		}
		if _, ok := e.DeviceInfo(); ok {
			t.Errorf("%s: the device still computes", what)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("%s: logits %d differ", what, i)
			}
		}
		e.Close()
	}
	planted.after.Store(0)
	if failed < 10 {
		t.Errorf("%d calls have failed in texts", failed)
	}
}

// TestDeviceRefuses: what cannot be computed on a device is an error that says why; auto lets the CPU compute it, and
// tells.
func TestDeviceRefuses(t *testing.T) {
	for _, c := range []struct {
		o    Options
		kind error
		want string
	}{
		{Options{Device: "small"}, pack.ErrLimit, "MiB free"},
		{Options{Device: "lacking", Cache: CacheF16}, pack.ErrUnsupported, "a KV cache of type f16: device plain has"},
		{Options{Device: "plain", FloatActivations: true}, pack.ErrUnsupported, "float activations"},
		{Options{Device: "quantum"}, pack.ErrUnsupported, "no driver"},
		{Options{Device: "plain:x"}, pack.ErrUnsupported, "vulkan:1"},
	} {
		if _, err := New(tiny(t), c.o); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	told := ""
	e := engine(t, tiny(t), Options{Device: device.Auto, FloatActivations: true,
		Notice: func(line string) { told = line }})
	if _, ok := e.DeviceInfo(); ok || !strings.Contains(told, "float activations") {
		t.Errorf("told %q", told)
	}
	e = engine(t, tiny(t), Options{Device: device.Auto})
	computes(t, e)
}

// TestDeviceCacheFits: a KV cache that takes what is free takes no more than is free on the device.
func TestDeviceCacheFits(t *testing.T) {
	const spare = 3 << 20
	need := engine(t, tiny(t), Options{Device: "plain", Context: 256}).device.pass.Bytes()
	device.Register(plaindevice.Driver("tight", plaindevice.Options{Memory: need + spare}))
	o := Options{Context: 256, Sequences: 64, CacheTokens: CacheFits, Page: 32}
	whole, _ := engine(t, tiny(t), o).Pages()
	o.Device = "tight"
	e := engine(t, tiny(t), o)
	computes(t, e)
	if pages, _ := e.Pages(); pages >= whole || pages < 256/32 {
		t.Errorf("%d pages on the device, %d on the CPU", pages, whole)
	}
	if left := need + spare - e.device.pass.Bytes(); left < 0 || left > spare {
		t.Errorf("%d bytes are left", left)
	}
}
