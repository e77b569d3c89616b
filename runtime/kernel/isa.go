package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// ISA names an instruction set, as in LOWPACK_ISA and in reports.
type ISA string

// The instruction sets that kernels are written for.
const (
	Generic    ISA = "generic"    // plain Go
	AVX2       ISA = "avx2"       // 256-bit integers
	AVXVNNI    ISA = "avxvnni"    // and VEX-encoded VPDPBUSD, for CPUs without AVX-512
	AVX512VNNI ISA = "avx512vnni" // AVX-512 F, BW, DQ, VL and VNNI
	NEON       ISA = "neon"       // Advanced SIMD of ARMv8.0
	DotProd    ISA = "dotprod"    // and the dot product extension of ARMv8.2
)

// EnvISA is the environment variable that forces an instruction set: kernels of it, or of those that it contains, are
// used and no others. Forcing one that is missing is an error.
const EnvISA = "LOWPACK_ISA"

// ladder lists the instruction sets, the best first, each with those that it contains.
var ladder = []struct {
	isa      ISA
	contains []ISA
}{
	{AVX512VNNI, []ISA{AVX2}},
	{AVXVNNI, []ISA{AVX2}},
	{AVX2, nil},
	{DotProd, []ISA{NEON}},
	{NEON, nil},
	{Generic, nil},
}

// feature is a set of CPU features that some kernels need beyond their instruction set.
type feature uint

const (
	vbmi feature = 1 << iota // byte permutations across a 512-bit register
	gfni                     // affine transformations of bytes
)

// selection is what this process may use.
type selection struct {
	isas     []ISA // best first, Generic last
	features feature
	err      error
}

var selected = choose(os.Getenv(EnvISA))

// choose applies a forced instruction set to what the CPU has.
func choose(force string) selection {
	have, features := detected()
	s := selection{features: features}
	top := ISA(force)
	if force != "" && top != Generic && !slices.Contains(have, top) {
		s.err = fmt.Errorf("%w: %s=%s, but this CPU or build has only %s", pack.ErrUnsupported, EnvISA, force, strings.Join(names(have), ", "))
	}
	for _, step := range ladder {
		if step.isa == Generic || slices.Contains(have, step.isa) && (force == "" || step.isa == top || contains(top, step.isa)) {
			s.isas = append(s.isas, step.isa)
		}
	}
	return s
}

func contains(isa, inner ISA) bool {
	for _, step := range ladder {
		if step.isa == isa {
			return slices.Contains(step.contains, inner)
		}
	}
	return false
}

// names lists the instruction sets in have, the best first, and generic, which is everywhere.
func names(have []ISA) (list []string) {
	for _, step := range ladder {
		if step.isa == Generic || slices.Contains(have, step.isa) {
			list = append(list, string(step.isa))
		}
	}
	return list
}

// Check reports a forced instruction set that this CPU or build lacks.
func Check() error { return selected.err }

// Available lists the instruction sets that may be used, the best first, Generic last.
func Available() []ISA { return slices.Clone(selected.isas) }

// Best is the best instruction set that may be used.
func Best() ISA { return selected.isas[0] }

// Have reports whether an instruction set may be used.
func Have(isa ISA) bool { return slices.Contains(selected.isas, isa) }

// serves reports whether k multiplies matrices of this layout on this CPU.
func (k *Kernel) serves(s pack.Spec) bool {
	return Have(k.ISA) && selected.features&k.needs == k.needs &&
		(k.Layout == "*" || k.Layout == s.Name) && (k.Alphabets == nil || slices.Contains(k.Alphabets, s.Alphabet))
}

// For lists the kernels for a layout that this CPU can run, the best first; the generic one is always the last.
func For(s pack.Spec) []*Kernel {
	var list []*Kernel
	for _, k := range kernels {
		if k.serves(s) {
			list = append(list, k)
		}
	}
	prefer(list, s.Alphabet)
	return list
}
