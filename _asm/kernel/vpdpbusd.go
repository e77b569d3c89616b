package main

import "fmt"

// vpdpbusd is the VEX form of VPDPBUSD on 256 bits, acc += u · x with u unsigned. Go's assembler has only the EVEX
// form, which faults on CPUs without AVX-512.
func vpdpbusd(acc, u, x int) string {
	inverted := func(bit, at int) int { return (bit ^ 1) << at }
	vex1 := inverted(acc>>3, 7) | 1<<6 | inverted(x>>3, 5) | 0b00010 // opcode map 0F 38
	vex2 := (^u&15)<<3 | 1<<2 | 0b01                                 // 256 bits, prefix 66
	modrm := 0b11<<6 | (acc&7)<<3 | x&7
	return fmt.Sprintf("BYTE $0xC4; BYTE $0x%02X; BYTE $0x%02X; BYTE $0x50; BYTE $0x%02X // VEX VPDPBUSD Y%d, Y%d, Y%d",
		vex1, vex2, modrm, x, u, acc)
}
