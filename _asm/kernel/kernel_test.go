package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFresh: the generated files are up to date with this generator.
func TestFresh(t *testing.T) {
	for name, text := range texts() {
		have, err := os.ReadFile(filepath.Join("../../internal/kernel", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != text {
			t.Errorf("%s is not what the generator writes; run go generate ./internal/kernel", name)
		}
	}
}

// TestVEX compares the bytes of VPDPBUSD in its VEX form, for all registers, with what Go's assembler emits for
// VPMADDUBSW, an instruction of the same form: only the opcode may differ.
func TestVEX(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("#include \"textflag.h\"\nTEXT ·f(SB), NOSPLIT, $0-0\n")
	var want []string
	for acc := range 16 {
		for u := range 16 {
			for x := range 16 {
				fmt.Fprintf(&text, "VPMADDUBSW Y%d, Y%d, Y%d\n", x, u, acc)
				want = append(want, encoded(t, vpdpbusd(acc, u, x)))
			}
		}
	}
	text.WriteString("RET\n")
	write(t, dir, "f_amd64.s", text.String())
	write(t, dir, "f.go", "package main\nfunc f()\nfunc main() { f() }\n")
	write(t, dir, "go.mod", "module f\ngo 1.26.0\n")
	goTool(t, dir, "build", "-o", "f", ".")
	const opcode = 3 // its place in the instruction
	i := 0
	for _, m := range regexp.MustCompile(`0x[0-9a-f]+\s+(c4e2[0-9a-f]{6}|c462[0-9a-f]{6}|c4c2[0-9a-f]{6}|c442[0-9a-f]{6})\s`).FindAllStringSubmatch(goTool(t, dir, "tool", "objdump", "-s", "main.f", "f"), -1) {
		got, _ := hex.DecodeString(m[1])
		if got[opcode] != 0x04 {
			continue
		}
		got[opcode] = 0x50
		if hex.EncodeToString(got) != want[i] {
			t.Fatalf("instruction %d is %s, want %x", i, want[i], got)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d of %d instructions found", i, len(want))
	}
}

// encoded returns the bytes of BYTE directives.
func encoded(t *testing.T, line string) (s string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`BYTE \$0x([0-9a-fA-F]{2})`).FindAllStringSubmatch(line, -1) {
		s += strings.ToLower(m[1])
	}
	if len(s) != 10 {
		t.Fatalf("%q", line)
	}
	return s
}

// TestTwin runs the tests of the AVX-VNNI kernels on CPUs that have AVX-512 VNNI but lack AVX-VNNI, with every VPDPBUSD
// in its EVEX form: the same instruction in another encoding, which TestVEX checks.
func TestTwin(t *testing.T) {
	info, _ := os.ReadFile("/proc/cpuinfo")
	if !strings.Contains(string(info), "avx512_vnni") {
		t.Skip("no AVX-512 VNNI")
	}
	dir := t.TempDir()
	replace := map[string]string{}
	vex := regexp.MustCompile(`BYTE \$0xC4; .*// VEX (VPDPBUSD .*)`)
	for name, text := range avxvnniFile().texts() {
		if filepath.Ext(name) != ".s" {
			continue
		}
		twin := vex.ReplaceAllString(text, "$1")
		if twin == text || strings.Contains(twin, "BYTE") {
			t.Fatal("the twin is not one")
		}
		original, err := filepath.Abs(filepath.Join("../../internal/kernel", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = write(t, dir, filepath.Base(name), twin)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOWPACK_TEST_TWIN", "avxvnni")
	t.Setenv("LOWPACK_REQUIRE_ISA", "avxvnni")
	t.Log(goTool(t, "../..", "test", "-overlay", write(t, dir, "overlay.json", string(overlay)), "-run",
		"TestKernels|TestLongRows|TestScaled|TestBlocks|TestRequired", "./internal/kernel"))
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return string(out)
}
