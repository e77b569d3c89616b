//go:build vulkan

package vulkan

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine"
)

// withMatrices opens a device whose cooperative matrices are used; one that has none skips the test.
func withMatrices(t *testing.T, s settings) *gpu {
	t.Helper()
	g := opened(t, s)
	if g.matrices.m == 0 {
		absent(t, "%s (%s) has no cooperative matrices of int8 that tile a workgroup; the software device of Mesa has "+
			"them from 26.2 on", g.Device, g.Driver)
	}
	if !g.routes.matrices {
		t.Fatalf("the probe finds that they are not exact: %q", g.Probe)
	}
	return g
}

// uses fails unless the device has compiled a module.
func (g *gpu) uses(t *testing.T, module string) {
	t.Helper()
	if !slices.ContainsFunc(g.pipelines, func(p *pipeline) bool { return p.module == module }) {
		t.Errorf("%s was not used", module)
	}
}

// matrixShapes are what modules with matrices are compiled with, in panels of 64 rows and of fewer.
var matrixShapes = []compiledCodes{{bits: 8, lanes: 64, tokens: 33}, {bits: 2, lanes: 16, tokens: 16, ternary: 1},
	{bits: 4, lanes: 32, tokens: 70}, {bits: 2, lanes: 8, tokens: 17}, {bits: 1, lanes: 4, tokens: 31},
	{bits: 8, lanes: 32, tokens: 64}, {bits: 2, lanes: 8, tokens: 32, ternary: 1}, {bits: 4, lanes: 16, tokens: 65}}

// TestMatrices compares products by cooperative matrices with their definition in plain Go: with scales of every kind,
// zero points and terms, by every route of floats.
func TestMatrices(t *testing.T) {
	for i, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			g := withMatrices(t, v.settings)
			for s, shape := range matrixShapes {
				if !long.All && s%len(variants()) != i {
					continue
				}
				r := &random{rand.New(rand.NewPCG(uint64(s), 11)), i, []float64{1, 1e-20, 3e-38}[s%3]}
				for range 4 {
					for _, c := range []stepCall{r.codes(shape), r.offsetCodes(shape)} {
						if !device.OperationOf[device.OffsetCodes](c.constants).ByMatrices() {
							t.Fatalf("%+v is not computed by matrices", c.constants)
						}
						want, got := execute(t, plaindevice.New(plaindevice.Options{}), c), execute(t, g, c)
						for b := range want {
							if i := differs(got[b], want[b]); i >= 0 {
								t.Errorf("%s %+v: buffer %d, word %d: %08x, want %08x", c.kernel, c.constants, b, i,
									got[b][i], want[b][i])
							}
						}
					}
				}
			}
			g.uses(t, "codes_matrix")
			g.uses(t, "offset_codes_matrix")
		})
	}
}

// TestMatrixSums compares sums of integers at the ends of their ranges with plain loops, where rows, columns and tokens
// fill a tile and where they do not.
func TestMatrixSums(t *testing.T) {
	g := withMatrices(t, settings{})
	for _, rows := range []uint32{1, 64, 67} {
		for _, k := range []uint32{1, 4, 64, 68, 1024} {
			for _, tokens := range []uint32{16, 32, 33} {
				if err := g.checkSums(tokens, rows, k); err != nil {
					t.Errorf("%d tokens, %d rows, %d columns: %v", tokens, rows, k, err)
				}
			}
		}
	}
	g.uses(t, "codes_matrix")
}

// atLast counts the calls of a function while a device is opened, whose last one is of the probe of matrices, and
// returns what lets that fail, and later ones where the device stays so.
func atLast(t *testing.T, name string, why result, stays bool) func(string) result {
	calls, last := 0, 0
	withMatrices(t, settings{fail: func(what string) result {
		if what == name {
			last++
		}
		return 0
	}})
	return func(what string) result {
		if what == name {
			calls++
		}
		if what == name && calls == last || stays && calls >= last {
			return why
		}
		return 0
	}
}

// TestMatricesRefused: a device whose driver does not compile them computes prompts without them, and says why.
func TestMatricesRefused(t *testing.T) {
	const refused = result(-3)
	g := opened(t, settings{fail: atLast(t, "vkCreateComputePipelines", refused, false)})
	if slices.Contains(g.Accelerated, g.matrices.accelerated()) ||
		!strings.Contains(g.Probe[len(g.Probe)-1], "are not used: vkCreateComputePipelines: "+refused.Error()) {
		t.Errorf("%q, %q", g.Accelerated, g.Probe)
	}
	r := &random{rand.New(rand.NewPCG(1, 11)), 0, 1}
	c := r.codes(matrixShapes[0])
	want, got := execute(t, plaindevice.New(plaindevice.Options{}), c), execute(t, g, c)
	if i := differs(got[5], want[5]); i >= 0 {
		t.Errorf("word %d: %08x, want %08x", i, got[5][i], want[5][i])
	}
}

// TestMatricesLose: a device that is lost while its matrices are probed is an error, not one without them.
func TestMatricesLose(t *testing.T) {
	const lost = result(-4)
	fail := atLast(t, "vkQueueSubmit", lost, true)
	all, err := devices()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newDevice(all[0], settings{fail: fail}); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}

// TestMatrixWorkgroups: where a workgroup of four subgroups can be had, of the size that is asked for.
func TestMatrixWorkgroups(t *testing.T) {
	for _, c := range []struct {
		stages, subgroups, size, most uint32
		want                          bool
	}{
		{computeStage, 4, 32, 128, true},
		{computeStage, 3, 32, 128, false},
		{computeStage, 4, 33, 128, false},
		{^uint32(computeStage), 4, 32, 128, false},
	} {
		s := &subgroupSizeProperties{requiredStages: c.stages, mostOfGroup: c.subgroups}
		if got := s.hold(c.size, c.most); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestChosenMatrices: of what a driver lists, the largest are chosen of those that shaders can use.
func TestChosenMatrices(t *testing.T) {
	kind := func(m, n, k uint32) matrixKind {
		return matrixKind{m: m, n: n, k: k, a: 3, b: 3, c: 5, result: 5, scope: 3}
	}
	changed := func(change func(*matrixKind)) matrixKind {
		k := kind(16, 32, 64)
		change(&k)
		return k
	}
	wrong := []matrixKind{kind(32, 8, 16), kind(16, 48, 16), kind(16, 16, 48), kind(0, 16, 16), kind(8, 8, 2),
		changed(func(k *matrixKind) { k.a = 7 }), changed(func(k *matrixKind) { k.b = 7 }),
		changed(func(k *matrixKind) { k.c = 9 }), changed(func(k *matrixKind) { k.result = 1 }),
		changed(func(k *matrixKind) { k.saturating = 1 }), changed(func(k *matrixKind) { k.scope = 2 })}
	for _, c := range []struct {
		kinds []matrixKind
		want  matrices
	}{
		{nil, matrices{}},
		{wrong, matrices{}},
		{append(slices.Clone(wrong), kind(16, 16, 16), kind(16, 8, 32), kind(16, 16, 32), kind(8, 8, 32)),
			matrices{m: 16, n: 16, k: 32}},
		{[]matrixKind{kind(8, 16, 32), kind(8, 8, 32)}, matrices{m: 8, n: 16, k: 32}},
	} {
		if got := chosenMatrices(c.kinds); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.kinds, got, c.want)
		}
	}
}

// TestMatricesInPrompts: the logits of a prompt of the bundled model are those of the CPU where cooperative matrices
// compute its linear layers.
func TestMatricesInPrompts(t *testing.T) {
	g := withMatrices(t, settings{})
	f, err := packed.Open(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	logits := func(o engine.Options) []float32 {
		e, err := engine.New(f, o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		seq, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		c := engine.Chunk{Seq: seq, Tokens: make([]int, 37), Logits: make([]float32, e.Description().Vocab)}
		for i := range c.Tokens {
			c.Tokens[i] = 1 + 5*i
		}
		if err := e.Forward(t.Context(), []engine.Chunk{c}); err != nil {
			t.Fatal(err)
		}
		return c.Logits
	}
	want := logits(engine.Options{Threads: 1})
	got := logits(engine.Options{Threads: 1, Device: "vulkan",
		OpenDevice: func(string) (device.Backend, error) { return g, nil }})
	if !slices.Equal(got, want) {
		t.Error("the logits are others")
	}
	g.uses(t, "codes_matrix")
}
