package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestWords compares every instruction written as a word, with all registers that kernels use, with the output of the
// GNU binutils disassembler. LOWPACK_REQUIRE_OBJDUMP=1 makes its absence a failure.
func TestWords(t *testing.T) {
	var want []string
	var code []byte
	word := regexp.MustCompile(`WORD \$(0x[0-9a-f]{8}) // (.*)`)
	for _, f := range kernelFiles() {
		if f.arch != "arm64" {
			continue
		}
		for _, m := range word.FindAllStringSubmatch(f.body.String(), -1) {
			v, err := strconv.ParseUint(m[1], 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			code = binary.LittleEndian.AppendUint32(code, uint32(v))
			want = append(want, m[2])
		}
		if n := strings.Count(f.body.String(), "WORD"); n != len(word.FindAllString(f.body.String(), -1)) {
			t.Errorf("%s: a word without a comment", f.name)
		}
	}
	out := disassemble(t, "aarch64-linux-gnu-objdump", "aarch64", code)
	lines := regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t[0-9a-f]{8} \t(.*)$`).FindAllStringSubmatch(out, -1)
	if len(lines) != len(want) || len(want) < 1000 {
		t.Fatalf("%d lines for %d instructions", len(lines), len(want))
	}
	for i, l := range lines {
		if got := strings.ReplaceAll(l[1], "\t", " "); got != want[i] {
			t.Errorf("%x is %s, not %s", binary.LittleEndian.Uint32(code[4*i:]), got, want[i])
		}
	}
}

// TestWordsOfTiles compares every instruction on tile registers, written as bytes, in the same way.
func TestWordsOfTiles(t *testing.T) {
	var want []string
	var code []byte
	for _, f := range append(rooflineFiles(), amxFile()) {
		for _, m := range regexp.MustCompile(`(?m)^\t(BYTE \$0xC4; .*) // ((?:ld)?t[a-z].*)$`).FindAllStringSubmatch(f.body.String(), -1) {
			for _, b := range regexp.MustCompile(`BYTE \$0x(..)`).FindAllStringSubmatch(m[1], -1) {
				v, err := strconv.ParseUint(b[1], 16, 8)
				if err != nil {
					t.Fatal(err)
				}
				code = append(code, byte(v))
			}
			want = append(want, m[2])
		}
	}
	out := disassemble(t, "objdump", "i386:x86-64", code)
	lines := regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t[0-9a-f ]+\t(\S+) *(.*)$`).FindAllStringSubmatch(out, -1)
	if len(lines) != len(want) || len(want) < 200 {
		t.Fatalf("%d lines for %d instructions", len(lines), len(want))
	}
	for i, l := range lines {
		if got := strings.TrimSpace(l[1] + " " + l[2]); got != want[i] {
			t.Errorf("%s is not %s", got, want[i])
		}
	}
}

// disassemble disassembles code with GNU binutils.
func disassemble(t *testing.T, objdump, machine string, code []byte) string {
	t.Helper()
	if _, err := exec.LookPath(objdump); err != nil {
		if os.Getenv("LOWPACK_REQUIRE_OBJDUMP") != "" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed", objdump)
	}
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, code, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-z", "-w", "-b", "binary", "-m", machine, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBaseKnowsNoDotProducts: kernels for ARMv8.0 contain no instruction of an extension. The only one that this
// generator emits is the dot product.
func TestBaseKnowsNoDotProducts(t *testing.T) {
	for _, f := range []*file{baseFile(), vecLUTNEONFile()} {
		if strings.Contains(f.body.String(), "dot v") {
			t.Errorf("%s uses dot products", f.name)
		}
	}
	if !strings.Contains(dotFile().body.String(), "sdot v") {
		t.Error("there is none to be found")
	}
}
