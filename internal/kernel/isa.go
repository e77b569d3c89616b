package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
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
	AMX        ISA = "amx"        // and VBMI, GFNI, and the tile registers of AMX-INT8
	NEON       ISA = "neon"       // Advanced SIMD of ARMv8.0
	DotProd    ISA = "dotprod"    // and the dot product extension of ARMv8.2
)

// EnvISA is the environment variable that forces an instruction set: only kernels of it, or of the sets that it
// contains, are used. Forcing one that is missing is an error.
const EnvISA = "LOWPACK_ISA"

// ladder lists the instruction sets, best first, each with its architecture and the sets that it contains.
var ladder = []struct {
	isa      ISA
	arch     string
	contains []ISA
}{
	{AMX, "amd64", []ISA{AVX512VNNI, AVX2}},
	{AVX512VNNI, "amd64", []ISA{AVX2}},
	{AVXVNNI, "amd64", []ISA{AVX2}},
	{AVX2, "amd64", nil},
	{DotProd, "arm64", []ISA{NEON}},
	{NEON, "arm64", nil},
	{Generic, "", nil},
}

// rung is the place of an instruction set in the ladder.
func rung(isa ISA) int {
	for i, step := range ladder {
		if step.isa == isa {
			return i
		}
	}
	panic("kernel: unknown instruction set " + isa)
}

// feature is a set of CPU features that some kernels need beyond their instruction set.
type feature uint

const (
	vbmi feature = 1 << iota // byte permutations across a 512-bit register
	gfni                     // affine transformations of bytes
)

// selection holds the instruction sets that this process may use.
type selection struct {
	isas     []ISA // best first, Generic last
	features feature
	tiles    string // for people: whether tile registers are used, and why; "" on architectures without them
	err      error
}

var selected = choose(os.Getenv(EnvISA))

// choose applies a forced instruction set to the features of the CPU. It asks the system for tile registers only if
// they would be used.
func choose(force string) selection {
	have, features := detected()
	s := selection{features: features}
	top := ISA(force)
	if asm.Arch == "amd64" {
		var ok bool
		if ok, s.tiles = tileRegisters(have, features, force); ok {
			have = append(have, AMX)
		}
	}
	if force != "" && top != Generic && !slices.Contains(have, top) {
		s.err = fmt.Errorf("%w: %s=%s, but this CPU or build has only %s", pack.ErrUnsupported, EnvISA, force,
			strings.Join(names(have), ", "))
		if top == AMX && s.tiles != "" {
			s.err = fmt.Errorf("%w; tile registers are %s", s.err, s.tiles)
		}
	}
	for _, step := range ladder {
		if step.isa == Generic || slices.Contains(have, step.isa) &&
			(force == "" || step.isa == top || contains(top, step.isa)) {
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

// tileRegisters says whether this process may use tile registers, or why not.
func tileRegisters(have []ISA, features feature, force string) (ok bool, why string) {
	switch {
	case force != "" && ISA(force) != AMX:
		return false, "not used: " + EnvISA + "=" + force
	case !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8:
		return false, "not used: this CPU, or what it is shown as, has no AMX-INT8"
	case !slices.Contains(have, AVX512VNNI) || features&(vbmi|gfni) != vbmi|gfni:
		return false, "not used: AMX-INT8 without AVX-512 VNNI, VBMI and GFNI"
	}
	if err := permitTiles(); err != nil {
		return false, fmt.Sprintf("not used: the system refuses them: %v", err)
	}
	return true, "AMX-INT8"
}

// TileRegisters says for people whether products use tile registers, and why; "" on architectures without them.
func TileRegisters() string { return selected.tiles }

// Check reports a forced instruction set that this CPU or build lacks.
func Check() error { return selected.err }

// Available lists the instruction sets that may be used, the best first, Generic last.
func Available() []ISA { return slices.Clone(selected.isas) }

// Best is the best instruction set that may be used.
func Best() ISA { return selected.isas[0] }

// Have reports whether an instruction set may be used.
func Have(isa ISA) bool { return slices.Contains(selected.isas, isa) }

// detected lists what this CPU, operating system and build support.
func detected() (have []ISA, features feature) {
	switch asm.Arch {
	case "amd64":
		return detectedX86()
	case "arm64":
		return detectedARM(), 0
	}
	return nil, 0
}

func detectedX86() (have []ISA, features feature) {
	x := &cpu.X86
	// FMA and BMI2 came with AVX2; asking for them excludes emulators that lie
	if !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 {
		return nil, 0
	}
	have = append(have, AVX2)
	if x.HasAVXVNNI {
		have = append(have, AVXVNNI)
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		have = append(have, AVX512VNNI)
	}
	if x.HasAVX512VBMI {
		features |= vbmi
	}
	if x.HasAVX512GFNI {
		features |= gfni
	}
	return have, features
}

func detectedARM() (have []ISA) {
	if !cpu.ARM64.HasASIMD {
		return nil
	}
	have = append(have, NEON)
	if cpu.ARM64.HasASIMDDP {
		have = append(have, DotProd)
	}
	return have
}
