package main

import (
	"fmt"
	"strings"
)

// The AMX instructions, which Go's assembler lacks: VEX.128.0F38.W0, written as bytes. TestTiles compares them with the
// output of the GNU binutils disassembler, whose syntax the comments use.

// Prefixes of VEX.
const (
	prefixNone = iota
	prefix66
	prefixF3
	prefixF2
)

// Numbers of the general registers, and their names in the disassembly.
var general = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7, "R8": 8, "R9": 9, "R10": 10,
	"R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15}

func disassembled(register string) string {
	if register[0] == 'R' {
		return "%" + strings.ToLower(register)
	}
	return "%r" + strings.ToLower(register)
}

// vex is an instruction with opcode op; v is its third register, base and index form its address.
func vex(prefix, v, base, index int, op ...int) []int {
	inverted := func(r, at int) int { return (r>>3 ^ 1) << at }
	return append([]int{0xC4, 1<<7 | inverted(index, 6) | inverted(base, 5) | 0b00010, (^v&15)<<3 | prefix}, op...)
}

func (f *file) bytes(code []int, comment string) {
	var s []string
	for _, c := range code {
		s = append(s, fmt.Sprintf("BYTE $0x%02X", c&0xff))
	}
	f.p("%s // %s", strings.Join(s, "; "), comment)
}

// tileMemory is an instruction on a tile and its rows in memory, the first at disp(base), index bytes apart.
func (f *file) tileMemory(name string, prefix, tile, disp int, base, index string) {
	b, i := general[base], general[index]
	modrm, displacement, text := 0x04, []int(nil), ""
	switch {
	case disp == 0 && b&7 == 5: // R13 as base requires a displacement
		modrm, displacement, text = 0x44, []int{0}, "0x0"
	case disp >= 1 && disp < 128:
		modrm, displacement, text = 0x44, []int{disp}, fmt.Sprintf("%#x", disp)
	case disp != 0:
		modrm, displacement, text = 0x84, []int{disp, disp >> 8, disp >> 16, disp >> 24}, fmt.Sprintf("%#x", disp)
	}
	code := append(vex(prefix, 0, b, i, 0x4B, modrm|tile<<3, i&7<<3|b&7), displacement...)
	operands := []string{fmt.Sprintf("%s(%s,%s,1)", text, disassembled(base), disassembled(index)),
		fmt.Sprintf("%%tmm%d", tile)}
	if prefix == prefixF3 {
		operands[0], operands[1] = operands[1], operands[0]
	}
	f.bytes(code, name+" "+strings.Join(operands, ","))
}

func (f *file) tileLoad(tile, disp int, base, index string) {
	f.tileMemory("tileloadd", prefixF2, tile, disp, base, index)
}

// tileLoadFar is a load with a hint to bypass the nearest cache.
func (f *file) tileLoadFar(tile, disp int, base, index string) {
	f.tileMemory("tileloaddt1", prefix66, tile, disp, base, index)
}

func (f *file) tileStore(tile, disp int, base, index string) {
	f.tileMemory("tilestored", prefixF3, tile, disp, base, index)
}

func (f *file) tileZero(tile int) {
	f.bytes(vex(prefixF2, 0, 0, 0, 0x49, 0xC0|tile<<3), fmt.Sprintf("tilezero %%tmm%d", tile))
}

// tileDot adds the products of signed bytes: four columns of a row of a times a lane of b, to a lane of sum.
func (f *file) tileDot(sum, a, b int) {
	f.bytes(vex(prefixF2, b, 0, 0, 0x5E, 0xC0|sum<<3|a), fmt.Sprintf("tdpbssd %%tmm%d,%%tmm%d,%%tmm%d", b, a, sum))
}

func (f *file) tileConfig(address string) {
	b := general[address]
	f.bytes(vex(prefixNone, 0, b, 0, 0x49, b&7), fmt.Sprintf("ldtilecfg (%s)", disassembled(address)))
}

func (f *file) tileRelease() {
	f.bytes(vex(prefixNone, 0, 0, 0, 0x49, 0xC0), "tilerelease")
}
