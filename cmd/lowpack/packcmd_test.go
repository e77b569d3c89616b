package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/vectors"
	"github.com/lowpack/lowpack/pack"
)

// runCommandLine runs one command and returns its output.
func runCommandLine(cmd *cli.Command, args ...string) (string, error) {
	var out bytes.Buffer
	app := &cli.App{Writer: &out, ErrWriter: io.Discard, Commands: []*cli.Command{cmd}, DisableSliceFlagSeparator: true,
		ExitErrHandler: func(*cli.Context, error) {}}
	err := app.Run(append([]string{"lowpack", cmd.Name}, args...))
	return out.String(), err
}

func writeTensor(t *testing.T, path string, dtype safetensors.DType, data []byte, shape ...int64) {
	t.Helper()
	if err := writeOnly(path, safetensors.TensorInfo{Name: "w", DType: dtype, Shape: shape}, data); err != nil {
		t.Fatal(err)
	}
}

func asBytes(codes []int8) []byte {
	b := make([]byte, len(codes))
	for i, v := range codes {
		b[i] = byte(v)
	}
	return b
}

// codesOf returns the codes of a vector, if its floats are codes already, with a scale of 1.
func codesOf(v *vectors.Case) []int8 {
	if v.Codes != nil || v.Layout == "q4_0" || v.Layout == "q8_0" || v.Layout == "mxfp4" {
		return v.Codes
	}
	var codes []int8
	for i, f := range v.Floats {
		if f != float32(int8(f)) {
			return nil
		}
		codes = append(codes, int8(f))
		zero := !slices.ContainsFunc(v.Floats[i/64*64:min(i/64*64+64, len(v.Floats))],
			func(f float32) bool { return f != 0 })
		if zero {
			return nil // ggml uses the scale 0 for a block of zeros
		}
	}
	return codes
}

// TestPackVectors packs every golden vector through the command, and unpacks it again.
func TestPackVectors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out, back := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "back")
	cases := 0
	for _, v := range vectors.Load(t) {
		codes := codesOf(&v)
		if codes == nil {
			continue
		}
		cases++
		writeTensor(t, in, safetensors.I8, asBytes(codes), int64(v.M), int64(v.K))
		args := []string{"--layout", v.Layout, "--in", in, "-o", out}
		if v.Alphabet != "" {
			args = append(args, "--alphabet", v.Alphabet)
		}
		for name, value := range v.Params {
			args = append(args, "--param", fmt.Sprintf("%s=%d", name, value))
		}
		if _, err := runCommandLine(packCommand(), args...); err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		_, packed, err := readOnly(out, safetensors.U8)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(v.Name, func(t *testing.T) { v.Check(t, packed) })
		reverse := append(slices.Clone(args), "--reverse", "--shape", fmt.Sprintf("%dx%d", v.M, v.K), "--in", out,
			"-o", back)
		if _, err := runCommandLine(packCommand(), reverse...); err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		info, unpacked, err := readOnly(back, safetensors.I8)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(unpacked, asBytes(codes)) || !slices.Equal(info.Shape, []int64{int64(v.M), int64(v.K)}) ||
			info.Name != "w" {
			t.Errorf("%s: unpacked %v differs", v.Name, info)
		}
	}
	if cases != 72+10 {
		t.Errorf("%d vectors went through the command, want 82", cases)
	}
}

func TestPackRefusals(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	writeTensor(t, path("codes"), safetensors.I8, asBytes([]int8{0, 1, -1, 0, 1, 1, -1, 0}), 2, 4)
	writeTensor(t, path("flat"), safetensors.I8, make([]byte, 8), 8)
	writeTensor(t, path("int2"), safetensors.I8, asBytes([]int8{0, 1, -2, 0}), 1, 4)
	writeTensor(t, path("packed"), safetensors.U8, make([]byte, 32), 32)
	writeTensor(t, path("dirty"), safetensors.U8, append(make([]byte, 31), 0xFF), 32)
	half := make([]byte, 66)
	half[65] = 0x38 // the scale ½
	writeTensor(t, path("scaled"), safetensors.U8, half, 66)
	out := path("out")
	for _, c := range []struct {
		args  string
		want  string
		usage bool
	}{
		{"--in codes -o out", "needs --layout", true},
		{"--layout vnni4i --in codes", "needs --output", true},
		{"--layout vnni5 --in codes -o out", "must be one of vnni4i", true},
		{"--layout vnni4i --alphabet int7 --in codes -o out",
			`invalid --alphabet "int7": must be one of int1, ternary`, true},
		{"--layout i2s --alphabet int8 --in codes -o out", `holds no "int8" codes; it holds ternary`, true},
		{"--layout blocked --param bm --in codes -o out", "NAME=NUMBER", true},
		{"--layout blocked --param bk=12 --in codes -o out", "must be a multiple of 8", true},
		{"--layout blocked --param by=8 --in codes -o out", `no parameter "by"`, true},
		{"--layout tl1 --param bm=48 --in codes -o out", "must be 32 or 64", true},
		{"--layout tq1_0 --param bm=48 --in codes -o out", "no parameters", true},
		{"--layout vnni4i --in codes -o out extra", "takes no arguments", true},
		{"--layout vnni4i --in packed -o out --reverse", "cannot be used without", true},
		{"--layout vnni4i --in codes -o out --shape 2x4", "cannot be used without", true},
		{"--layout vnni4i --in packed -o out --reverse --shape 2", "want MxK", true},
		{"--layout vnni4i --in packed -o out --reverse --shape 0x4", "dimension", true},
		{"--layout vnni4i --in absent -o out", "file does not exist", false},
		{"--layout vnni4i --in packed -o out", `type I8, there are U8 "w"`, false},
		{"--layout vnni4i --in flat -o out", "want [M, K]", false},
		{"--layout vnni4i --in int2 -o out", "code -2 at row 0, column 2", false},
		{"--layout vnni4i --in int2 -o out", "--alphabet chooses another", false},
		{"--layout tq1_0 --in codes -o out", "not a multiple of 256", false},
		{"--layout vnni4i --in packed -o out --reverse --shape 33x4", "has 64", false},
		{"--layout vnni4i --in packed -o out --reverse --shape 9999999x9999999", "bytes", false},
		{"--layout vnni4i --in dirty -o out --reverse --shape 32x4", "stands for no weight", false},
		{"--layout tq2_0 --in scaled -o out --reverse --shape 1x256", "block 0 has the scale 0.5", false},
		{"--layout q4_0 --in scaled -o out --reverse --shape 1x256", "has 144", false},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			if i > 0 && (args[i-1] == "--in" || args[i-1] == "-o") {
				args[i] = path(a)
			}
		}
		_, err := runCommandLine(packCommand(), args...)
		var usage usageError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &usage) != c.usage {
			t.Errorf("%s: %v; want %q, a mistake of usage: %v", c.args, err, c.want, c.usage)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s left a file behind", c.args)
			os.Remove(out)
		}
	}
}

func testKernels(layout string) []string {
	if layout == "vnni4i" {
		return []string{"avx2", "neon"}
	}
	return nil
}

// TestNarrow: of a table that is wider than the terminal the last columns are left out.
func TestNarrow(t *testing.T) {
	rows := [][]string{{"a", "long", "c", "d"}, {"aaa", "b", "cc", "ddddd"}}
	for columns, want := range map[int]int{1: 2, 12: 2, 13: 3, 19: 3, 20: 4, 80: 4} {
		var b strings.Builder
		got := narrow(rows, columns)
		table(&b, nil, got)
		if len(got[0]) != want || len(got) != len(rows) {
			t.Errorf("%d columns: %v", columns, got)
		}
		for line := range strings.Lines(b.String()) {
			if want > 2 && len(strings.TrimSuffix(line, "\n")) > columns {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
	}
}

func TestLayoutsCommand(t *testing.T) {
	list, err := runCommandLine(layoutsCommand(testKernels))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range pack.Layouts() {
		if !strings.Contains(list, info.Name+" ") {
			t.Errorf("the table lacks %s", info.Name)
		}
	}
	if !strings.Contains(list, "avx2 neon") {
		t.Error("the table lacks the kernels")
	}
	svg := filepath.Join(t.TempDir(), "p.svg")
	if out, err := runCommandLine(layoutsCommand(testKernels), "--svg", svg, "i1"); err != nil || out != "" {
		t.Errorf("--svg: %q, %v", out, err)
	}
	if data, err := os.ReadFile(svg); err != nil || !bytes.HasPrefix(data, []byte("<svg ")) {
		t.Errorf("no picture: %v", err)
	}
	page, err := runCommandLine(layoutsCommand(testKernels), "vnni4i")
	if err != nil || !strings.Contains(page, "Kernels of its own: avx2, neon.") || !strings.Contains(page, "byte 7") {
		t.Errorf("the page of vnni4i: %v\n%s", err, page)
	}
	for _, args := range [][]string{{"--svg", svg}, {"nothing"}, {"i1", "i2"}} {
		var usage usageError
		if _, err := runCommandLine(layoutsCommand(testKernels), args...); !errors.As(err, &usage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestKernelSets(t *testing.T) {
	for _, k := range kernel.Kernels() {
		if sets := kernelSets(k.Layout); !slices.Contains(sets, string(k.ISA)) {
			t.Errorf("%s: %v lacks %s", k.Layout, sets, k.ISA)
		}
	}
	if sets := kernelSets("hf-u8"); sets != nil {
		t.Errorf("hf-u8 has no kernels, listed are %v", sets)
	}
}

func TestLayoutsJSON(t *testing.T) {
	out, err := runCommandLine(layoutsCommand(testKernels), "--json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name      string
		Kernels   []string
		Alphabets []struct {
			Name string
			Bits float64 `json:"bits_per_weight"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(pack.Layouts()) || list[0].Name != "vnni4i" ||
		!slices.Equal(list[0].Kernels, []string{"avx2", "neon"}) || list[0].Alphabets[0].Bits != 2 {
		t.Errorf("the list starts with %+v", list[0])
	}
}
