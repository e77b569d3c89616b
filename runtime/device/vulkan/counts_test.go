//go:build vulkan

package vulkan

import (
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/device/counting"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestCountsOfPass: the dispatches that are recorded in the first pass of a whole model are as many as package counting
// counts for a device that binds as much at once.
func TestCountsOfPass(t *testing.T) {
	f, err := packed.Open(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recorded := 0
	g := opened(t, settings{fail: func(what string) result {
		if what == "vkAllocateDescriptorSets" { // one for each dispatch
			recorded++
		}
		return 0
	}})
	pass := func(b device.Backend, reset func()) {
		e, err := engine.New(f, engine.Options{Device: "vulkan", Threads: 1,
			OpenDevice: func(string) (device.Backend, error) { return b, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		seq, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		reset()
		chunk := engine.Chunk{Seq: seq, Tokens: []int{1, 2, 3}, Logits: make([]float32, e.Description().Vocab)}
		if err := e.Forward(t.Context(), []engine.Chunk{chunk}); err != nil {
			t.Fatal(err)
		}
	}
	pass(g, func() { recorded = 0 })
	counted := counting.New("vulkan", g.MaxRange)
	pass(counted, counted.Reset)
	if recorded == 0 || recorded != len(counted.Dispatches) {
		t.Errorf("%d dispatches recorded, %d counted", recorded, len(counted.Dispatches))
	}
}
