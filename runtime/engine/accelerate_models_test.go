//go:build amd64 && !purego

package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// TestDeviceEqualsReference: random models, which between them use every feature that devices serve. What they do not
// serve is refused by name.
func TestDeviceEqualsReference(t *testing.T) {
	for _, name := range devices {
		if name == "narrow" { // rows of these models are too long for it
			continue
		}
		models, enough := uint64(50), 200
		switch {
		case driven(name): // it compiles the kernels of each model anew, which takes a minute
			enough = 4
		case long.All:
			models, enough = 200, 800
		}
		served, refused := 0, map[string]int{}
		for seed := uint64(0); seed < models && served < enough; seed++ {
			for _, of := range []features{onDevices, expertsBeside, everyFeature} {
				if what := deviceEqualsCPU(t, name, seed, of); what == "" {
					served++
				} else {
					refused[what]++
				}
			}
		}
		t.Logf("%s: %d models served; refused: %v", name, served, refused)
		if served < min(enough, int(models)/2) {
			t.Errorf("%s serves %d models", name, served)
		}
		for _, what := range []string{"experts", "latent attention", "a recurrent layer",
			"an order of columns with activations that have a scale per group", "ALiBi",
			"a gate of attention", "outputs that are scaled", `the activation "relu"`,
			"several residual streams", "inputs of layers"} {
			if refused[what] == 0 && served < enough {
				t.Errorf("no model was refused for %s", what)
			}
		}
	}
}

// narrow has the kind of 8 bits for each kind of activations.
var narrow = map[packed.ActivationKind]packed.ActivationKind{
	packed.ActivationToken: packed.ActivationToken, packed.ActivationToken16: packed.ActivationToken,
	packed.ActivationGroup: packed.ActivationGroup, packed.ActivationGroup16: packed.ActivationGroup,
}

// oneZeroBesideMinima: codes count from the lowest one where there are minima, which a device gets as one number and
// not as an array of zero points.
func oneZeroBesideMinima(t *testing.T, e *Engine) {
	m, err := e.deviceModel()
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		for _, l := range []device.Linear{b.QKV, b.O, b.GateUp, b.Down} {
			for _, of := range l.Matrices {
				if c := of.Codes; c != nil && c.Minima != nil && c.Zeros != nil {
					t.Errorf("%s has %d zero points beside minima", of.Name, len(c.Zeros))
				}
			}
		}
	}
}

// deviceEqualsCPU compares a random model on a device with the CPU; it returns what the device does not serve.
func deviceEqualsCPU(t *testing.T, name string, seed uint64, of features) (refused string) {
	r := rand.New(rand.NewPCG(seed, 2))
	v, d := randomModel(t, r, of)
	v.manifest.Activation.Kind = narrow[v.manifest.Activation.Kind] // of the wide ones whole models are refused
	o := Options{Batch: 1 + r.IntN(9), Device: name, DeviceLayers: r.IntN(d.Layers + 2),
		Cache: caches[r.IntN(len(caches))], Notice: func(line string) { t.Logf("seed %d: %s", seed, line) }}
	e, err := build(v, d, o)
	if err != nil {
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Fatal(err)
		}
		what := strings.TrimSuffix(err.Error(), ": no device computes that, the CPU does (--device cpu)")
		return what[strings.LastIndex(what, ": ")+2:]
	}
	defer e.Close()
	computes(t, e)
	oneZeroBesideMinima(t, e)
	o.Device, o.DeviceLayers = "", 0
	cpu, err := build(v, d, o)
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	tokens := make([]int, 1+r.IntN(20))
	for i := range tokens {
		tokens[i] = r.IntN(d.Vocab)
	}
	want, got := logits(t, cpu, tokens, len(tokens)), logits(t, e, tokens, len(tokens))
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("%s, seed %d: position %d of %d: other logits\n%+v", name, seed, i, len(tokens), d.Config)
			break
		}
	}
	computes(t, e)
	return ""
}
