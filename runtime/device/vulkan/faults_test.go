//go:build vulkan

package vulkan

import (
	"errors"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// work opens a device, computes a step and closes it.
func work(s settings) error {
	all, err := devices()
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("no device"))
	}
	g, err := newDevice(all[0], s)
	if err != nil {
		return err
	}
	defer g.Close()
	m, err := g.Alloc(1<<20, device.Steps)
	if err != nil {
		return err
	}
	y := device.Range{Memory: m, Bytes: 1 << 10}
	if err := g.Upload(y, make([]byte, 1<<10)); err != nil {
		return err
	}
	op := device.Finish{N: 1, Vocab: 256, Scale: 2}
	c, err := g.Record([]device.Step{{Kernel: device.KernelFinish, Constants: device.Words(op),
		Buffers: []device.Range{y, {Memory: m, Offset: 4096, Bytes: 4}, {Memory: m, Offset: 8192, Bytes: 4}}}})
	if err != nil {
		return err
	}
	defer c.Free()
	if err := c.Run(time.Minute); err != nil {
		return err
	}
	return g.Copy(device.Range{Memory: m, Offset: 2048, Bytes: 1 << 10}, y)
}

// TestEveryCallFails: whichever call of a driver fails, and however, the error says so, nothing hangs, and the next
// device works.
func TestEveryCallFails(t *testing.T) {
	var names []string
	if err := work(settings{fail: func(what string) result { names = append(names, what); return 0 }}); err != nil {
		t.Fatal(err)
	}
	if len(names) < 40 {
		t.Fatalf("%d calls", len(names))
	}
	step := 1
	if !long.All {
		step = 11
	}
	for at := 0; at < len(names); at += step {
		why := [...]result{-4, -2, -3}[at%3]
		calls := 0
		err := work(settings{fail: func(string) result {
			if calls++; calls > at {
				return why // what was lost stays so
			}
			return 0
		}})
		if !errors.Is(err, why) {
			t.Errorf("call %d (%s) fails with %q: %v", at, names[at], why.Error(), err)
		}
		if memory := names[at] == "vkAllocateMemory" && why == -2; memory && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("too little memory: %v", err)
		}
	}
	if err := work(settings{}); err != nil {
		t.Error(err)
	}
}

// TestHangs: a device that does not answer is an error within the limit, and closing it does not wait.
func TestHangs(t *testing.T) {
	g := opened(t, settings{})
	c, err := g.begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	g.fail = func(string) result { return timedOut }
	if err := c.Run(time.Millisecond); !errors.Is(err, timedOut) {
		t.Errorf("%v", err)
	}
	g.fail, g.hangs = nil, true
	if err := c.Run(time.Minute); !errors.Is(err, timedOut) {
		t.Errorf("a fence in use is used again: %v", err)
	}
	c.Free()
	if err := g.Close(); err != nil || g.handle == 0 {
		t.Errorf("%v: closed what hangs", err)
	}
	g.hangs = false // the test has only pretended
}

// TestPipelineFails: a pipeline that could not be made is made anew when it is asked for again.
func TestPipelineFails(t *testing.T) {
	g := opened(t, settings{})
	const module, own = "probe", 7 // a constant that no other pipeline has
	g.fail = func(what string) (r result) {
		if what == "vkCreateComputePipelines" {
			r = -2
		}
		return r
	}
	if _, err := g.pipeline(module, 2, 1, own); !errors.Is(err, result(-2)) {
		t.Errorf("%v", err)
	}
	g.fail = nil
	p, err := g.pipeline(module, 2, 1, own)
	if err != nil || p.handle == 0 {
		t.Errorf("%v: a pipeline without a handle", err)
	}
}
