package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/runtime/device"
)

// crowd is a device whose memory several models share.
type crowd struct {
	free int
	used atomic.Int64
}

// tenant is the device as one of the models sees it.
type tenant struct {
	device.Backend
	of    *crowd
	takes atomic.Int64
}

func (c *crowd) open(string) (device.Backend, error) {
	const most = 1 << 30
	return &tenant{of: c, Backend: plaindevice.New(plaindevice.Options{Memory: c.free - int(c.used.Load()),
		MaxAlloc: most, MaxRange: most})}, nil
}

func (t *tenant) Alloc(bytes int, use device.Use) (device.Memory, error) {
	t.takes.Add(int64(bytes))
	t.of.used.Add(int64(bytes))
	return t.Backend.Alloc(bytes, use)
}

func (t *tenant) Close() error {
	t.of.used.Add(-t.takes.Swap(0))
	return t.Backend.Close()
}

// TestDivided: an idle model leaves the device to one that has no room beside it for all of its layers; a model in use
// stays, and the other one is divided between the device and the CPU. The answers are those of the CPU.
func TestDivided(t *testing.T) {
	if race.Enabled {
		t.Skip("the device computes in one goroutine, which takes minutes here")
	}
	_, cpu := serveOf(t, tiny(t, "a", small), Options{Queue: 10})
	_, _, text := post(t, cpu, "/v1/completions", ask("a"))
	want := fmt.Sprint(at(object(t, text), "choices"))
	shared := &crowd{free: 1 << 30}
	o := small
	o.Device, o.OpenDevice = "plain", shared.open
	var told []string
	note := func(text string) { told = append(told, text) }
	s, err := New(Options{Queue: 10, Note: note}, tiny(t, "a", o), tiny(t, "b", o))
	if err != nil {
		t.Fatal(err)
	}
	web, a, b := webOf(t, s), s.models.list[0], s.models.list[1]
	layers := func(h *hosted) int {
		t.Helper()
		m, err := s.models.acquire(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := m.engine.DeviceLayers()
		return n
	}
	if n := layers(a); n != 6 {
		t.Errorf("%d layers of the first model on the device", n)
	}
	shared.free = 2*int(shared.used.Load()) - 1 // not enough for both
	s.models.release(a)
	if n := layers(b); n != 6 {
		t.Errorf("%d layers on the device beside an idle model", n)
	}
	if n := layers(a); n == 0 || n == 6 || !strings.HasSuffix(told[len(told)-1],
		fmt.Sprintf("; %d of 6 layers are on the device, the others on the CPU", n)) {
		t.Errorf("%d layers on the device beside a model in use; told %q", n, told)
	}
	_, _, text = post(t, web, "/v1/completions", ask("a"))
	if got := fmt.Sprint(at(object(t, text), "choices")); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s.models.release(a)
	s.models.release(b)
}
