package main

import (
	"fmt"
	"slices"
	"strings"
)

// The kernels of every architecture are listed in one table (internal/kernel/dispatch.go), so every build declares all
// their names: function tables that a build lacks are nil, and functions panic, since they must not be called.

// declaration is the placeholder of a name in builds without its assembly.
type declaration struct{ name, text string }

// absentFiles declare, for each build, the names that other builds have and it lacks.
func absentFiles() map[string]string {
	has := map[string][]declaration{}
	for _, f := range kernelFiles() {
		has[f.arch] = append(has[f.arch], f.absent...)
	}
	all := slices.Concat(has["amd64"], has["arm64"])
	return map[string]string{
		path(asmDir, "absent", "amd64") + ".go": absentText("!purego", "amd64", all, has["amd64"]),
		path(asmDir, "absent", "arm64") + ".go": absentText("!purego", "arm64", all, has["arm64"]),
		path(asmDir, "absent", "other") + ".go": absentText("purego || !(amd64 || arm64)", "", all, nil),
	}
}

func absentText(build, arch string, all, has []declaration) string {
	var b strings.Builder
	fmt.Fprintf(&b, notice, build)
	fmt.Fprintf(&b, `package asm

// Arch names the architecture of the assembly in this build; "" stands for none.
const Arch = %q

// absent is what functions say whose assembly this build lacks.
const absent = "kernel: no assembly for this in the build"
`, arch)
	done := map[string]bool{}
	for _, d := range has {
		done[d.name] = true
	}
	for _, d := range all {
		if !done[d.name] {
			done[d.name] = true
			fmt.Fprintf(&b, "\n%s\n", d.text)
		}
	}
	return b.String()
}

// pauseFile declares the spin-wait hint instruction; builds without assembly spin without it.
func pauseFile(arch, instruction string) *file {
	f := newFile("pause", arch)
	f.declare("Pause", "tells the core that this is a loop that spins.", "", 0)
	f.absent[0].text = "func Pause() {}"
	f.p(instruction)
	f.p("RET")
	return f
}

// cpuidFile declares the CPUID instruction.
func cpuidFile() *file {
	f := newFile("cpuid", "amd64")
	f.declare("CPUID", "stores registers EAX, EBX, ECX and EDX of a leaf.", "words *[4]uint32, leaf int", 2)
	f.p("MOVQ words+0(FP), DI")
	f.p("MOVQ leaf+8(FP), AX")
	f.p("XORL CX, CX")
	f.p("CPUID")
	for i, r := range []string{"AX", "BX", "CX", "DX"} {
		f.p("MOVL %s, %d(DI)", r, 4*i)
	}
	f.p("RET")
	return f
}
