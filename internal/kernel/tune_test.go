package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestTunings: whatever is chosen, results are the same.
func TestTunings(t *testing.T) {
	defer func(was Tuning) { tuned = was }(tuned)
	for _, tuned = range Tunings() {
		r := rand.New(rand.NewPCG(47, 48))
		for _, spec := range specs(t) {
			if onlyUnpacked(spec) {
				continue
			}
			for i := range 10 {
				s, tokens := pack.Shape{M: 1 + r.IntN(400), K: 1 + r.IntN(700)}, 1+i/2*(i%2)
				newProblem(t, spec, s, tokens, 0, r).check(t)
				checkBlocks(t, spec, s, tokens, blockCase{weights: []int{0, 32, 64, 128}[i%4], activations: []int{64, 0, 32}[i%3], zero: i%3 > 0}, r)
			}
		}
	}
}

// TestTunedPanels: one token takes two panels at a time where the tuning says so, and only there: on AVX-512 of all weights, on
// AVX2 of those of four and eight bits, in panels of 32 rows.
func TestTunedPanels(t *testing.T) {
	if Best() != AVX512VNNI && Best() != AVX2 {
		t.Skip("no kernels that take two panels")
	}
	narrow := []string{pack.Ternary.Name, pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}
	defer func(was Tuning) { tuned = was }(tuned)
	for _, tuned = range Tunings() {
		for _, spec := range specs(t) {
			l, err := pack.Open(spec)
			if err != nil {
				t.Fatal(err)
			}
			p, paneled := l.(pack.Paneled)
			if !paneled || onlyUnpacked(spec) || spec.Alphabet == pack.Int1.Name || spec.Name == "vnni4t" {
				continue
			}
			pr := newProblem(t, spec, pack.Shape{M: 4 * p.PanelRows(), K: 64}, 1, 0, rand.New(rand.NewPCG(1, 2)))
			w, err := Bind(l, pr.matrix.Shape, pr.packed, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := tuned.Panels == 2
			if Best() == AVX2 {
				want = want && p.PanelRows() == 32 && !slices.Contains(narrow, spec.Alphabet)
			}
			if tiled := multiplyAdd(w.product); tiled.two(1) != want {
				t.Errorf("%s: %v, %s", tuned.Name, w.Kernel, spec.Alphabet)
			}
			w.Close()
		}
	}
}

// multiplyAdd is the product that takes few tokens.
func multiplyAdd(p product) *tiled {
	if v, ok := p.(*vecLUT); ok {
		p = v.few
	}
	return p.(*tiled)
}

func TestTuningOf(t *testing.T) {
	for _, c := range []struct {
		vendor    string
		signature uint32
		avx512    bool
		cpu, name string
	}{
		{"GenuineIntel", 0x000806F8, true, "GenuineIntel family 6 model 143", "ramps"},        // Sapphire Rapids
		{"GenuineIntel", 0x000C06F2, true, "GenuineIntel family 6 model 207", "ramps"},        // Emerald Rapids
		{"GenuineIntel", 0x00000F4A, false, "GenuineIntel family 15 model 4", "one-stream"},   // Pentium 4
		{"AuthenticAMD", 0x00A10F11, true, "AuthenticAMD family 25 model 17", "one-stream"},   // Zen 4
		{"AuthenticAMD", 0x00A00F11, false, "AuthenticAMD family 25 model 1", "two-streams"},  // Zen 3
		{"AuthenticAMD", 0x00830F10, false, "AuthenticAMD family 23 model 49", "two-streams"}, // Zen 2
		{"GenuineIntel", 0x000506E3, false, "GenuineIntel family 6 model 94", "ramps"},        // Skylake
		{"", 0, false, "", "one-stream"}, // an architecture without CPUID
		{"CentaurHauls", 0x000306F2, false, "CentaurHauls family 6 model 63", "one-stream"},
	} {
		cpu := cpuOf(c.signature)
		cpu.Vendor, cpu.AVX512 = c.vendor, c.avx512
		tuning, why := tuningOf(cpu)
		if fmt.Sprint(cpu) != c.cpu || tuning.Name != c.name || why == "" {
			t.Errorf("%#x: %v, %s", c.signature, cpu, tuning.Name)
		}
	}
}
