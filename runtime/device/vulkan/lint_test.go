package vulkan

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Instructions of SPIR-V that the lint knows.
const (
	opExtInst     = 12
	opTypeFloat   = 22
	opDecorate    = 71
	opTypeMatrix  = 4456
	opMatrixMul   = 4459
	noContraction = 42
	saturating    = 16
	extFMA        = 50
)

// arithmetic are the instructions that a compiler may contract, or that have no defined order.
var arithmetic = map[uint32]string{129: "OpFAdd", 131: "OpFSub", 133: "OpFMul", 136: "OpFDiv", 140: "OpFRem",
	141: "OpFMod"}

// unordered are products of vectors and matrices.
var unordered = map[uint32]bool{142: true, 143: true, 144: true, 145: true, 146: true, 147: true, 148: true}

// lint lists what would let a driver round otherwise: float arithmetic without NoContraction, extended float
// instructions other than fma(), whose exactness the probe finds out, and matrices of floats or that saturate.
func lint(code []uint32) (wrong []string) {
	exact, floats := map[uint32]bool{}, map[uint32]bool{}
	for i := 5; i < len(code); {
		n := int(code[i] >> 16)
		if n == 0 || i+n > len(code) {
			return append(wrong, fmt.Sprintf("word %d: not an instruction", i))
		}
		in := code[i : i+n]
		i += n
		op := in[0] & 0xffff
		switch {
		case op == opDecorate && in[2] == noContraction:
			exact[in[1]] = true
		case op == opTypeFloat:
			floats[in[1]] = true
		case arithmetic[op] != "" && !exact[in[2]]:
			wrong = append(wrong, fmt.Sprintf("%%%d: %s may be contracted", in[2], arithmetic[op]))
		case op == opTypeMatrix && floats[in[2]]:
			wrong = append(wrong, fmt.Sprintf("%%%d: a product of matrices of floats has no order", in[1]))
		case op == opMatrixMul && n > 6 && in[6]&saturating != 0:
			wrong = append(wrong, fmt.Sprintf("%%%d: a sum saturates", in[2]))
		case unordered[op]:
			wrong = append(wrong, fmt.Sprintf("%%%d: a product of vectors has no order", in[2]))
		case op == opExtInst && floats[in[1]] && in[4] != extFMA:
			wrong = append(wrong, fmt.Sprintf("%%%d: extended instruction %d is not exact", in[2], in[4]))
		}
	}
	return wrong
}

// module reads a module.
func module(t *testing.T, path string) (code []uint32) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+4 <= len(data); i += 4 {
		code = append(code, binary.LittleEndian.Uint32(data[i:]))
	}
	if len(code) < 5 || code[0] != 0x07230203 {
		t.Fatalf("%s is not SPIR-V", path)
	}
	return code
}

// TestShadersAreExact lints every shader: a device that never contracts, as the software device of CI, cannot show that
// a decoration is missing.
func TestShadersAreExact(t *testing.T) {
	paths, err := filepath.Glob("spirv/*.spv")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d shaders: %v", len(paths), err)
	}
	for _, path := range paths {
		code := module(t, path)
		for _, wrong := range lint(code) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
}

// TestLintFinds: the lint finds each thing that it looks for, in a shader from which it was removed or to which it was
// added.
func TestLintFinds(t *testing.T) {
	code := module(t, "spirv/prepare.spv")
	if len(lint(code)) != 0 {
		t.Fatal("the shader is not clean")
	}
	stripped := append([]uint32(nil), code...)
	for i := 5; i < len(stripped); i += int(stripped[i] >> 16) {
		if stripped[i]&0xffff == opDecorate && stripped[i+2] == noContraction {
			stripped[i+2] = 0 // RelaxedPrecision
		}
	}
	if n := len(lint(stripped)); n < 3 {
		t.Errorf("without NoContraction %d things are found", n)
	}
	if lint(append(code[:len(code):len(code)], 5<<16|148, 1, 2, 3, 4)) == nil {
		t.Error("a dot product of vectors is not found")
	}
	matrices := module(t, "spirv/codes_matrix.spv")
	for i := 5; i < len(matrices); i += int(matrices[i] >> 16) {
		if matrices[i]&0xffff == opMatrixMul {
			matrices[i+6] |= saturating
		}
	}
	if len(lint(matrices)) != 1 {
		t.Error("a product that saturates is not found once")
	}
	if lint(append(code[:len(code):len(code)], 3<<16|opTypeFloat, 1, 32, 7<<16|opTypeMatrix, 2, 1, 3, 4, 5, 6)) == nil {
		t.Error("a matrix of floats is not found")
	}
	for i := 5; i < len(code); i += int(code[i] >> 16) {
		if code[i]&0xffff == opExtInst && code[i+4] == extFMA {
			changed := append([]uint32(nil), code...)
			changed[i+4] = 27 // Exp
			if lint(changed) == nil {
				t.Error("exp() of the platform is not found")
			}
			return
		}
	}
	t.Error("the shader has no fma()")
}
