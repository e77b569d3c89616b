package openvino

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// led runs models of static shapes as NITRO does.
func led(t *testing.T, dir string, s session) (a answer, values []float32) {
	t.Helper()
	values = exports.Script(t, "openvino", "testdata/static.py", dir, s, &a)
	return a, values
}

// elements maps a number of bits to the type of ternary codes.
var elements = map[int]string{2: "u2", 4: "i4", 8: "i8"}

// TestInteropStatic: models of static shapes generate the golden tokens in both forms of the KV cache, with codes of
// every width (of bitllama2-3m: i4), with one and two threads; the prompts take turns.
func TestInteropStatic(t *testing.T) {
	bitllama, goldens := exports.BitllamaGoldens(t)
	for _, c := range []struct {
		checkpoint string
		goldens    []exports.Golden
		bits       []int
	}{{shared.Testdata(t, "tiny-bitnet"), exports.TinyGoldens(t), []int{2, 4, 8}}, {bitllama, goldens, []int{4}}} {
		source, turn := exports.Packed(t, c.checkpoint, packed.Recipe{}), 0
		for _, cache := range []Cache{States, Inputs} {
			for _, bits := range c.bits {
				dir := staticOf(t, source, Static{Cache: cache, Context: 128, Prefill: 8, Layers: 5, Bits: bits})
				for _, threads := range []int{1, 2} {
					g := c.goldens[turn%len(c.goldens)]
					turn++
					const n = 64
					a, _ := led(t, dir, session{Threads: threads, Prompts: [][]int{g.Prompt}, New: n})
					if !slices.Equal(a.Tokens[0], g.Greedy[:n]) {
						t.Errorf("%s, %s, %d bits, %d threads: %v, golden %v", c.checkpoint, cache, bits, threads,
							a.Tokens[0],
							g.Greedy[:n])
					}
					if a.Types[elements[bits]] < 2*len(matrices) {
						t.Errorf("%s: products with weights of %v; want %s", c.checkpoint, a.Types, elements[bits])
					}
				}
			}
		}
	}
}

// TestInteropStaticAccumulators: in the first layer the sums equal the int32 accumulators of the packed codes, also
// with padded rows.
func TestInteropStaticAccumulators(t *testing.T) {
	prompt := exports.TinyGoldens(t)[0].Prompt
	for _, r := range []packed.Recipe{{}, exports.PerRow("int8")} {
		source := exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), r)
		f, err := packed.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := plan(f, export.Exact, &Static{Cache: Inputs, Context: 64, Prefill: 8, Layers: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, values := led(t, written(t, m), session{Threads: 2, Prompts: [][]int{prompt}, Outputs: m.watched(t)})
		m.sameSums(t, values, 8)
	}
}

// TestInteropStaticLocal: masks and rotations of local layers, after a full window, give lowpack's logits.
func TestInteropStaticLocal(t *testing.T) {
	for _, cache := range []Cache{States, Inputs} {
		dir := shared.Path(t, filepath.Join("data", "transformers", "gemma3"))
		var ids []int
		exports.ReadJSON(t, filepath.Join(dir, "tokens.json"), &ids)
		ids = ids[:40]
		source := exports.Packed(t, dir, exports.AsFloats)
		a, got := led(t, staticOf(t, source, Static{Cache: cache, Context: 64, Prefill: 16}),
			session{Threads: 1, Prompts: [][]int{ids}, New: 8, Logits: true})
		want := exports.Logits(t, source, append(ids, a.Tokens[0]...))
		exports.Near(t, string(cache), got, want[len(want)-len(got):], 1e-5)
	}
}

// TestInteropStaticNPU: NPUW, OpenVINO's NPU path, accepts models with the KV cache as inputs, with a CPU in place of
// the NPU. Its partitioning gives different numbers from run to run, so it is turned off.
func TestInteropStaticNPU(t *testing.T) {
	const n = 16
	g := exports.TinyGoldens(t)[0]
	dir := staticOf(t, tiny(t), Static{Cache: Inputs, Context: 64, Prefill: 8})
	a, _ := led(t, dir, session{Prompts: [][]int{g.Prompt}, New: n,
		Options: map[string]any{"NPU_USE_NPUW": "YES", "NPUW_DEVICES": "CPU", "NPUW_F16IC": "NO",
			"NPUW_ONLINE_PIPELINE": "NONE"}})
	if !slices.Equal(a.Tokens[0], g.Greedy[:n]) {
		t.Errorf("%v, golden %v", a.Tokens[0], g.Greedy[:n])
	}
}
