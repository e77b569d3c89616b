package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// pipes is the demand of an instruction, or a loop, on the pipelines of a Neoverse N1: two for vectors (only V0
// multiplies, only V1 shifts), two for loads and stores, and a front end of four instructions per cycle. After LLVM's
// AArch64SchedNeoverseN1.td, which follows Arm's Neoverse N1 Software Optimization Guide.
type pipes struct{ instructions, v, v0, v1, l float64 }

func (p *pipes) add(q pipes, n float64) {
	p.instructions += n * q.instructions
	p.v += n * q.v
	p.v0 += n * q.v0
	p.v1 += n * q.v1
	p.l += n * q.l
}

// cycles is a lower bound: no latency, no cache, no memory.
func (p pipes) cycles() float64 {
	return max(p.instructions/4, p.v/2, p.v0, p.v1, p.l/2)
}

var costs = map[string]pipes{
	"V":      {1, 1, 0, 0, 0},
	"V0":     {1, 1, 1, 0, 0},
	"V0 V0":  {1, 2, 2, 0, 0},
	"V1":     {1, 1, 0, 1, 0},
	"L":      {1, 0, 0, 0, 1},
	"L V":    {1, 1, 0, 0, 1},
	"LL":     {1, 0, 0, 0, 2},
	"LL VV":  {1, 2, 0, 0, 2},
	"LLLL V": {1, 2, 0, 0, 4},
	"-":      {1, 0, 0, 0, 0},
}

// cost returns the pipeline demand of an instruction.
func cost(t *testing.T, line string) pipes {
	line = strings.TrimSpace(regexp.MustCompile(`^\s*WORD \S+ //`).ReplaceAllString(line, ""))
	name, rest, _ := strings.Cut(line, " ")
	kind := map[string]string{
		"ADD": "-", "SUBS": "-", "SUB": "-", "BNE": "-", "BGE": "-", "CBNZ": "-", "MOVD": "-",
		"VAND":    "V",
		"VEOR":    "V",
		"VORR":    "V",
		"VADD":    "V",
		"VSUB":    "V",
		"VTBL":    "V",
		"VCMTST":  "V",
		"VADDP":   "V",
		"VUADDW":  "V",
		"VUADDW2": "V",
		"sdot":    "V", "umin": "V", "uaddlp": "V", "saddw": "V", "saddw2": "V",
		"smlal": "V0", "smlal2": "V0", "smull": "V0", "smull2": "V0", "mul": "V0 V0",
		"VUSHR":   "V1",
		"VSHL":    "V1",
		"VUSHLL":  "V1",
		"VUSHLL2": "V1",
		"urshr":   "V1",
		"sxtl":    "V1",
		"sxtl2":   "V1",
		"sadalp":  "V1",
		"PRFM":    "L", "FMOVS": "L", "MOVHU": "L", "VLD1R": "L V", "FLDPQ": "LL", "FSTPQ": "LLLL V",
	}[name]
	if name == "FMOVQ" {
		kind = "L"
		if strings.HasPrefix(rest, "F") {
			kind = "LL VV"
		}
	}
	p, ok := costs[kind]
	if !ok {
		t.Fatalf("cost of %q?", line)
	}
	return p
}

// loops returns the instructions of the innermost loops of a function.
func loops(t *testing.T, f *file, function string) (list [][]string) {
	_, text, ok := strings.Cut(f.body.String(), "TEXT ·"+function+"(SB)")
	if !ok {
		t.Fatalf("no function %s", function)
	}
	text, _, _ = strings.Cut(text, "\nTEXT ")
	lines, labels, last := strings.Split(text, "\n"), map[string]int{}, -1
	for i, line := range lines {
		if label, ok := strings.CutSuffix(line, ":"); ok {
			labels[label] = i
			continue
		}
		m := regexp.MustCompile(`^\t(?:BNE|BGE|CBNZ R\d+,) (\w+)$`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if start, ok := labels[m[1]]; ok && start > last {
			list = append(list, lines[start+1:i+1])
			last = i
		}
	}
	return list
}

// longest returns the demand of the loop with the most instructions, and the bytes of weights that it reads.
func longest(t *testing.T, f *file, function string) (p pipes, bytes float64) {
	var loop []string
	for _, l := range loops(t, f, function) {
		if len(l) > len(loop) {
			loop = l
		}
	}
	read := map[string]bool{} // addresses, of which a loop may load some twice
	for _, line := range loop {
		p.add(cost(t, line), 1)
		if at := regexp.MustCompile(`FMOVQ \d*\((R1|R15|R16|R17)\)`).FindString(line); at != "" && !read[at] {
			read[at] = true
			bytes += 16
		}
	}
	return p, bytes
}

// TestBounds: the estimates in docs/notes/neon.md match the generated loops.
func TestBounds(t *testing.T) {
	doc, err := os.ReadFile("../../docs/notes/neon.md")
	if err != nil {
		t.Fatal(err)
	}
	row := func(text string) {
		if !strings.Contains(string(doc), text+"\n") {
			t.Errorf("docs/notes/neon.md lacks\n%s", text)
		}
	}
	dot, base := dotFile(), baseFile()
	for _, k := range []struct {
		what    string
		f       *file
		name    string
		weights float64 // per byte
		tokens  float64
	}{
		{"`vnni4i` ternary, int2 dotprod", dot, "fields2Rows32DotProdx1", 4, 1},
		{"the same, five tokens", dot, "fields2Rows32DotProdx5", 4, 5},
		{"`vnni4i` int4 dotprod", dot, "int4Rows32DotProdx1", 2, 1},
		{"the same, five tokens", dot, "int4Rows32DotProdx5", 2, 5},
		{"`vnni4i` e2m1, iq4nl dotprod", dot, "fields4Rows32DotProdx1", 2, 1},
		{"`vnni4i` int1 dotprod", dot, "fields1Rows32DotProdx1", 8, 1},
		{"`vnni4p` int6 dotprod", dot, "planes6Rows32DotProdx1", 4.0 / 3, 1},
		{"`vnni4p` int5 dotprod", dot, "planes5Rows32DotProdx1", 8.0 / 5, 1},
		{"`vnni4` int8 dotprod", dot, "fields8Rows32DotProdx1", 1, 1},
		{"`vnni4t` dotprod", dot, "base3DotProdx1", 5, 1},
		{"`i2s-arm` dotprod", dot, "rowMajorDotProdx1", 4, 1},
		{"the same, four tokens", dot, "rowMajorDotProdx4", 4, 4},
		{"`vnni4` int1 neon, dotprod", base, "binaryLUTRows32NEONx1", 8, 1},
		{"`vnni4i` ternary, int2 neon", base, "fields2Rows32NEONx1", 4, 1},
		{"`vnni4i` int4 neon", base, "fields4Rows32NEONx1", 2, 1},
		{"`vnni4i` iq4nl neon", base, "large4Rows32NEONx1", 2, 1},
		{"`vnni4p` int6 neon", base, "planes6Rows32NEONx1", 4.0 / 3, 1},
		{"`vnni4p` int5 neon", base, "planes5Rows32NEONx1", 8.0 / 5, 1},
		{"`vnni4i` int1 neon", base, "fields1Rows32NEONx1", 8, 1},
		{"`vnni4` int8 neon", base, "fields8Rows32NEONx1", 1, 1},
		{"`i2s-arm` neon", base, "rowMajorNEONx1", 4, 1},
		{"`vnni4t` neon", base, "base3NEONx1", 5, 1},
	} {
		p, bytes := longest(t, k.f, k.name)
		n := bytes / 64 * k.tokens
		row(fmt.Sprintf("| %s | %.0f | %.1f | %.0f |", k.what, p.instructions/n, p.cycles()/n,
			k.weights*64/(p.cycles()/n)))
	}
	for _, rows := range []float64{256, 1024} {
		p := vecLUTBound(t, rows)
		products := rows * 32 * 32
		row(fmt.Sprintf("| Vec-LUT, `vnni4i` ternary, %.0f rows, 32 tokens | %.0f | %.1f | %.0f |", rows,
			p.instructions*256/products, p.cycles()*256/products, products/p.cycles()))
	}
}

// vecLUTBound is the pipeline demand of a tile of 32 columns for 32 tokens: tables, indices, additions, and widening
// once in eight tiles.
func vecLUTBound(t *testing.T, rows float64) (p pipes) {
	f := vecLUTNEONFile()
	const groups = 8
	third := 1.0
	for _, entry := range loops(t, f, "VecLUTBuild4") {
		for _, line := range entry {
			p.add(cost(t, line), groups*2*third)
		}
		third *= 3
	}
	if third != 81 {
		t.Fatalf("tables of %.0f entries", third)
	}
	index, _ := longest(t, f, "VecLUTIndexRows32")
	add, _ := longest(t, f, "VecLUTAdd4Tile1")
	widen, _ := longest(t, f, "VecLUTWiden")
	p.add(index, groups*rows/32)
	p.add(add, rows)
	p.add(widen, rows/8)
	return p
}
