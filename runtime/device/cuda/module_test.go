package cuda

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/runtime/device"
)

// sources is where the kernels are.
const sources = "../../../_gpu/cuda"

// rounded are the only float operations in PTX that are rounded once, to nearest even, with subnormals (N1, N2).
var (
	rounded   = regexp.MustCompile(`^(add|sub|mul|fma|div|rcp|sqrt)\.rn\.f32$`)
	unrounded = regexp.MustCompile(`^(neg|abs|mov|max|min|selp|setp\.\w+|st|ld)(\..*)?\.f32$|` +
		`^cvt\.(f32\.f16|rn\.f32\.[su]32|rzi\.s32\.f32)$`)
	operation = regexp.MustCompile(`(?m)^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_]*(?:\.[a-z0-9_:]+)+)\s`)
)

// floatOperations are those of a text of PTX that work on float32 and are not exact by definition.
func floatOperations(text string) (wrong []string) {
	for _, m := range operation.FindAllStringSubmatch(text, -1) {
		op := m[1]
		if !strings.Contains(op, "f32") && !strings.Contains(op, "f64") && !strings.Contains(op, "approx") {
			continue
		}
		if !rounded.MatchString(op) && !unrounded.MatchString(op) && !slices.Contains(wrong, op) {
			wrong = append(wrong, op)
		}
	}
	return wrong
}

// TestArithmetic: no float operation of the kernels is contracted, estimated or flushed.
func TestArithmetic(t *testing.T) {
	text, err := unpacked(ptx)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), ".rn.f32"); n < 100 {
		t.Errorf("only %d float operations are found", n)
	}
	if wrong := floatOperations(string(text)); len(wrong) > 0 {
		t.Errorf("not rounded once: %q", wrong)
	}
}

// TestWrongArithmetic: what the kernels must not have is found.
func TestWrongArithmetic(t *testing.T) {
	for text, want := range map[string]int{
		"\tadd.rn.f32 \t%f1, %f2, %f3;\n":                                 0,
		"\tadd.f32 \t%f1, %f2, %f3;\n":                                    1,
		"\t@%p1 mul.rn.ftz.f32 \t%f1, %f2, %f3;\n":                        1,
		"\tex2.approx.ftz.f32 \t%f1, %f2;\n":                              1,
		"\tsqrt.approx.f32 \t%f1, %f2;\n\trsqrt.approx.f32 \t%f1, %f2;\n": 2,
		"\tld.global.cs.f32 \t%f1, [%rd1];\n":                             0,
		"\tfma.rn.f64 \t%fd1, %fd2, %fd3, %fd1;\n":                        1,
	} {
		if got := floatOperations(text); len(got) != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestConstants: the structs of the kernels have the fields of the operations, in their order.
func TestConstants(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sources, "ops.cuh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []any{device.Token{}, device.Prepare{}, device.Codes{}, device.Floats{}, device.Heads{},
		device.Scores{}, device.Attend{}, device.Residual{}, device.Finish{}} {
		typ := reflect.TypeOf(op)
		var want []string
		for i := range typ.NumField() {
			want = append(want, typ.Field(i).Name)
		}
		body := regexp.MustCompile(`(?s)\nstruct ` + typ.Name() + ` \{(.*?)\n\};`).FindSubmatch(text)
		if body == nil {
			t.Errorf("ops.cuh has no struct %s", typ.Name())
			continue
		}
		if got := fields(string(body[1])); !slices.Equal(got, want) {
			t.Errorf("%s has the fields %q, want %q", typ.Name(), got, want)
		}
	}
}

// fields are the names that a struct of C declares.
func fields(body string) (names []string) {
	for _, line := range strings.Split(body, ";") {
		words := strings.Fields(strings.ReplaceAll(line, ",", " "))
		for _, w := range words[min(1, len(words)):] { // after the type
			names = append(names, strings.Split(w, "[")[0])
		}
	}
	return names
}

// TestLaunched: every kernel that a step can ask for is in the module.
func TestLaunched(t *testing.T) {
	for name, packed := range map[string][]byte{"PTX": ptx, "machine code": machineCode} {
		text, err := unpacked(packed)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range everyLaunch() {
			if name == "PTX" && strings.Contains(l, "many") {
				continue // needs Hopper
			}
			if !bytes.Contains(text, []byte(l)) {
				t.Errorf("%s has no %s", name, l)
			}
		}
	}
}

// everyLaunch lists the names of kernels.
func everyLaunch() (names []string) {
	note := func(s shape, step device.Step) {
		for range step.Kernel.Buffers() {
			step.Buffers = append(step.Buffers, device.Range{Memory: &memory{}})
		}
		l, err := s.launches([]device.Step{step})
		if err == nil && !slices.Contains(names, l[0].kernel) {
			names = append(names, l[0].kernel)
		}
	}
	for _, s := range []shape{{132, 227 << 10, 90}, {108, 163 << 10, 80}} {
		for _, k := range device.Kernels() {
			if slices.Contains(lacks(), k) {
				continue
			}
			note(s, device.Step{Kernel: k, Constants: slices.Repeat([]uint32{8}, k.Constants())})
		}
		for _, op := range someCodes() {
			note(s, device.Step{Kernel: device.KernelCodes, Constants: device.Words(op)})
		}
		for _, n := range []uint32{1, 2} {
			note(s, device.Step{Kernel: device.KernelFloats, Constants: device.Words(device.Floats{N: n, Rows: 5,
				K: 5})})
		}
	}
	return names
}

// someCodes are products of all widths, sizes and numbers of tokens.
func someCodes() (all []device.Codes) {
	for _, bits := range []uint32{1, 2, 4, 8} {
		for _, n := range []uint32{1, 2, 9, 33, 65, 200, 512} {
			for _, rows := range []uint32{64, 2560, 13824} {
				for _, k := range []uint32{64, 2560, 6912} {
					op := device.Codes{N: n, Rows: rows, K: k, Lanes: 16, Bits: bits, Ternary: bits / 2 % 2}
					grouped := op
					grouped.Grouped, grouped.Ternary = 1, 0
					all = append(all, op, grouped)
				}
			}
		}
	}
	return all
}

// TestInteropCompiled: the committed kernels are what the sources compile to.
func TestInteropCompiled(t *testing.T) {
	nvcc := interop.File(t, "nvcc", "nvidia/cu13/bin/nvcc")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(sources, "build"), dir)
	cmd.Env = append(os.Environ(), "NVCC="+nvcc)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, committed := range map[string][]byte{"kernels_sm80.ptx.gz": ptx, "kernels_sm90a.cubin.gz": machineCode} {
		packed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpacked(packed)
		if err != nil {
			t.Fatal(err)
		}
		want, err := unpacked(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the sources compile to; run _gpu/cuda/build", name)
		}
	}
}
