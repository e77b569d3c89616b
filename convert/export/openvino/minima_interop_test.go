package openvino

import (
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/internal/testkit/exports"
)

// TestInteropMinima: with minima of every type, graphs have the logits of the unpacked floats; all matrices stay in the
// type in which they are stored, and an embedding has minima too.
func TestInteropMinima(t *testing.T) {
	ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
	for name, c := range withMinima(t) {
		dir, _ := exportedOf(t, c.source, export.Plain)
		a, got := openvino(t, dir, session{Threads: 2, Prompts: [][]int{ids}, Logits: true})
		tolerance := 1e-5
		if c.element == "u2" { // scales of two bits are large
			tolerance = 2e-5
		}
		exports.Near(t, name, got, exports.Logits(t, exports.Unpacked(t, c.source), ids), tolerance)
		if a.Types[c.element] < 12 {
			t.Errorf("%s: products with weights of %v; want %s", name, a.Types, c.element)
		}
	}
}

// TestInteropStaticMinima: models of static shapes compute minima too, with rows of one group that are filled up; as
// does NPUW, with a CPU in place of the NPU.
func TestInteropStaticMinima(t *testing.T) {
	ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44, 3, 8, 10, 77, 20}
	sources := withMinima(t)
	for name, cache := range map[string]Cache{"Q4_1": States, "one group": Inputs} {
		c := sources[name]
		dir := staticOf(t, c.source, Static{Cache: cache, Context: 64, Prefill: 16})
		want := exports.Logits(t, exports.Unpacked(t, c.source), ids)
		s := session{Threads: 1, Prompts: [][]int{ids}, Logits: true}
		a, got := led(t, dir, s)
		exports.Near(t, name, got, want[len(want)-len(got):], 1e-5)
		if a.Types[c.element] < 7 {
			t.Errorf("%s: products with weights of %v; want %s", name, a.Types, c.element)
		}
		if cache == Inputs {
			s.Options = map[string]any{"NPU_USE_NPUW": "YES", "NPUW_DEVICES": "CPU", "NPUW_F16IC": "NO",
				"NPUW_ONLINE_PIPELINE": "NONE"}
			_, got = led(t, dir, s)
			exports.Near(t, name+" in NPUW", got, want[len(want)-len(got):], 1e-5)
		}
	}
}
