package main

import (
	"fmt"
	"slices"
	"strings"
)

// x86 writes AVX2 (8 floats in a register) or AVX-512 (16). Go's assembler lists the operands of an instruction in the
// reverse order of the manuals.
type x86 struct {
	listing
	lanes     int
	constants []uint32 // in memory
}

func newX86(lanes int) *x86 { return &x86{lanes: lanes} }

func (m *x86) isa() string {
	if m.lanes == 16 {
		return "AVX512"
	}
	return "AVX2"
}

func (m *x86) width() int { return m.lanes }

func (m *x86) registers() int { return 2 * m.lanes }

func (m *x86) tile(n int) int {
	if m.lanes == 8 {
		return 4 / n // 16 registers: at most eight accumulators of 16 lanes, here four, and the operands
	}
	return 4
}

func (m *x86) sumsAtOnce(n int) int {
	if m.lanes == 8 {
		return 4 / n
	}
	return 4
}

// together is two rows if four vectors would need more loads than a core can issue alongside the products.
func (m *x86) together(n int) int {
	if m.lanes == 16 && n == 4 {
		return 2
	}
	return 1
}

// queriesAtOnce are as many as there are accumulators for.
func (m *x86) queriesAtOnce() int { return m.lanes / 4 }

func (m *x86) begin(name string, frame int) {
	m.kept = map[uint32]reg{}
	fmt.Fprintf(m, "TEXT ·%s%s(SB), NOSPLIT, $0-%d\n", name, m.isa(), frame)
}

func (m *x86) end() {
	m.line("VZEROUPPER")
	m.line("RET\n")
}

func (m *x86) text() string {
	var b strings.Builder
	for _, c := range m.constants {
		for i := range 16 {
			fmt.Fprintf(&b, "DATA c%08x<>+%d(SB)/4, $0x%08x\n", c, 4*i, c)
		}
		fmt.Fprintf(&b, "GLOBL c%08x<>(SB), RODATA|NOPTR, $64\n\n", c)
	}
	m.i4Data(&b)
	if m.lanes == 16 {
		for i := range 16 {
			fmt.Fprintf(&b, "DATA wordsUp<>+%d(SB)/4, $0x%08x\n", 4*i, i<<16)
		}
		b.WriteString("GLOBL wordsUp<>(SB), RODATA|NOPTR, $64\n\n")
	}
	return b.String() + strings.TrimSuffix(m.String(), "\n")
}

// hoist keeps the constants of a loop in registers where there are 32: exp alone has 16 operands that are constants,
// and a core loads two registers per cycle. With 16 registers constants are memory operands.
func (m *x86) hoist(take func() reg, body func()) {
	if m.lanes == 16 {
		m.keep(take, body, m.constant)
	}
}

// of returns the operand that holds a constant in every lane: a register or memory.
func (m *x86) of(c uint32) string {
	if r, ok := m.kept[c]; ok {
		return m.v(r)
	}
	m.see(c)
	if !slices.Contains(m.constants, c) {
		m.constants = append(m.constants, c)
	}
	return fmt.Sprintf("c%08x<>(SB)", c)
}

// inRegister returns a register that holds a constant in every lane: tmp if no other does.
func (m *x86) inRegister(c uint32, tmp reg) reg {
	if r, ok := m.kept[c]; ok {
		return r
	}
	m.constant(tmp, c)
	return tmp
}

var x86Pointers = []string{"AX", "BX", "CX", "DX", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R15"}

// x86Scratch is for loading constants.
const x86Scratch = "R14"

func (p ptr) x86() string { return x86Pointers[p] }

func (m *x86) v(r reg) string { return string("YZ"[m.lanes/16]) + fmt.Sprint(int(r)) }

func at(p ptr, off int) string { return fmt.Sprintf("%d(%s)", off, p.x86()) }

func (m *x86) arg(d ptr, p param) {
	name := p.name
	if strings.HasPrefix(p.typ, "[]") {
		name += "_base"
	}
	m.line("MOVQ %s+%d(FP), %s", name, p.offset, d.x86())
}

func (m *x86) length(d ptr, p param) { m.line("MOVQ %s_len+%d(FP), %s", p.name, p.offset+8, d.x86()) }

func (m *x86) shift(d ptr, n int) {
	if n < 0 {
		m.line("SHLQ $%d, %s", -n, d.x86())
	} else if n > 0 {
		m.line("SHRQ $%d, %s", n, d.x86())
	}
}

func (m *x86) addImm(d ptr, n int) { m.line("ADDQ $%d, %s", n, d.x86()) }
func (m *x86) add(d, s ptr)        { m.line("ADDQ %s, %s", s.x86(), d.x86()) }
func (m *x86) sub(d, s ptr)        { m.line("SUBQ %s, %s", s.x86(), d.x86()) }
func (m *x86) copy(d, s ptr)       { m.line("MOVQ %s, %s", s.x86(), d.x86()) }
func (m *x86) label(name string)   { fmt.Fprintf(m, "\n%s:\n", name) }
func (m *x86) jump(to string)      { m.line("JMP %s", to) }

func (m *x86) jumpLess(r ptr, n int, to string) {
	m.line("CMPQ %s, $%d", r.x86(), n)
	m.line("JLT %s", to)
}

func (m *x86) jumpLeast(r ptr, n int, to string) {
	m.line("CMPQ %s, $%d", r.x86(), n)
	m.line("JGE %s", to)
}

func (m *x86) countDown(r ptr, to string) {
	m.line("DECQ %s", r.x86())
	m.line("JNZ %s", to)
}

func (m *x86) prefetchAt(p ptr, off int) { m.line("PREFETCHT1 %s", at(p, off)) }

func (m *x86) load(d reg, p ptr, off int)  { m.line("VMOVUPS %s, %s", at(p, off), m.v(d)) }
func (m *x86) store(s reg, p ptr, off int) { m.line("VMOVUPS %s, %s", m.v(s), at(p, off)) }

// With AVX-512 one permutation widens BF16 to floats, where widening and a shift are two instructions: word i goes to
// the odd word 2·i+1, and a mask zeros the even ones.
const (
	wordsUp  = reg(15) // permutation indices: outside the registers of dot
	oddWords = "K4"
)

func (m *x86) prepareWide(typ string) {
	if typ == "BF16" && m.lanes == 16 {
		m.line("MOVL $0xaaaaaaaa, %s", x86Scratch)
		m.line("KMOVD %s, %s", x86Scratch, oddWords)
		m.line("VMOVDQU16 wordsUp<>(SB), %s", m.v(wordsUp))
	}
}

func (m *x86) loadWide(d reg, typ string, p ptr, off int) {
	switch typ {
	case "F32":
		m.load(d, p, off)
	case "F16":
		m.line("VCVTPH2PS %s, %s", at(p, off), m.v(d))
	case "BF16":
		if m.lanes == 16 {
			m.line("VBROADCASTI64X4 %s, %s", at(p, off), m.v(d))
			m.line("VPERMW.Z %s, %s, %s, %s", m.v(d), m.v(wordsUp), oddWords, m.v(d))
			return
		}
		m.line("VPMOVZXWD %s, %s", at(p, off), m.v(d))
		m.line("VPSLLD $16, %s, %s", m.v(d), m.v(d))
	case "I8":
		m.line("VPMOVSXBD %s, %s", at(p, off), m.v(d))
		m.line("VCVTDQ2PS %s, %s", m.v(d), m.v(d))
	}
}

// storeF16 rounds as the operand says, to nearest, whatever MXCSR holds.
func (m *x86) storeF16(s reg, p ptr, off int) { m.line("VCVTPS2PH $0, %s, %s", m.v(s), at(p, off)) }

// dotI8 on AVX-512 makes unsigned bytes of the row by adding 128; startI8 compensates for it, and everything is modulo
// 2³². AVX2 multiplies magnitudes of the row by vectors with its signs, and adds two products in 16 bits: codes are
// −127 … 127, and 2·127² fits.
func (m *x86) dotI8(acc [][]reg, w ptr, x []ptr, n int) {
	if m.lanes == 16 {
		for s := 0; s < n; s += 2 {
			load, masked := "VMOVDQU8 %s, Z%d", n == 1
			if masked { // 32 columns: the rest of the vectors is zeros
				load = "VMOVDQU8.Z %s, K1, Z%d"
				m.line("MOVL $-1, %s", x86Scratch)
				m.line("KMOVD %s, K1", x86Scratch)
			}
			m.line(load, at(w, 32*s), 0)
			m.line("VPXORD %s, Z0, Z0", m.of(0x80808080))
			for t, p := range x {
				if !masked {
					m.line("VPDPBUSD %s, Z0, Z%d", at(p, 32*s), acc[t][0])
					continue
				}
				m.line(load, at(p, 32*s), 1)
				m.line("VPDPBUSD Z1, Z0, Z%d", acc[t][0])
			}
		}
		return
	}
	for s := range n {
		m.line("VMOVDQU %s, Y0", at(w, 32*s))
		m.line("VPABSB Y0, Y1")
		for t, p := range x {
			m.line("VMOVDQU %s, Y2", at(p, 32*s))
			m.line("VPSIGNB Y0, Y2, Y2")
			m.line("VPMADDUBSW Y2, Y1, Y2")
			m.line("VPMADDWD %s, Y2, Y2", m.of(0x00010001))
			m.do("iadd", acc[t][s%2], acc[t][s%2], 2)
		}
	}
}

func (m *x86) startI8(start []reg, x []ptr, n int) bool {
	if m.lanes != 16 {
		return false
	}
	for t, p := range x {
		m.line("VMOVDQU32 %s, Z1", m.of(0x80808080))
		m.zero(2)
		for s := range n {
			m.line("VMOVDQU %s, Y0", at(p, 32*s))
			m.line("VPDPBUSD Z0, Z1, Z2")
		}
		m.line("VPSUBD Z2, Z%d, Z%d", start[t], start[t])
	}
	return true
}

func (m *x86) splat(d reg, p param) { m.line("VBROADCASTSS %s+%d(FP), %s", p.name, p.offset, m.v(d)) }
func (m *x86) splatAt(d reg, p ptr, off int) {
	m.line("VBROADCASTSS %s, %s", at(p, off), m.v(d))
}
func (m *x86) zero(d reg)               { m.line("VXORPS %s, %s, %s", m.v(d), m.v(d), m.v(d)) }
func (m *x86) move(d, s reg)            { m.line("VMOVAPS %s, %s", m.v(s), m.v(d)) }
func (m *x86) constant(d reg, c uint32) { m.line("VMOVUPS %s, %s", m.of(c), m.v(d)) }

var x86Names = map[string]string{
	"add": "VADDPS", "sub": "VSUBPS", "mul": "VMULPS", "div": "VDIVPS", "max": "VMAXPS",
	"iadd": "VPADDD", "imin": "VPMINSD", "imax": "VPMAXSD",
}

func (m *x86) do(op string, d, a, b reg) {
	m.line("%s %s, %s, %s", x86Names[op], m.v(b), m.v(a), m.v(d))
}

func (m *x86) doConst(op string, d, a reg, c uint32) {
	m.line("%s %s, %s, %s", x86Names[op], m.of(c), m.v(a), m.v(d))
}

func (m *x86) multiplyAdd(d, a, b reg) { m.line("VFMADD231PS %s, %s, %s", m.v(b), m.v(a), m.v(d)) }
func (m *x86) multiplySub(d, a, b reg) { m.line("VFNMADD231PS %s, %s, %s", m.v(b), m.v(a), m.v(d)) }

func (m *x86) multiplyAddConst(d, a reg, c uint32) {
	m.line("VFMADD231PS %s, %s, %s", m.of(c), m.v(a), m.v(d))
}

func (m *x86) multiplyAddAt(d, a reg, p ptr, off int) {
	m.line("VFMADD231PS %s, %s, %s", at(p, off), m.v(a), m.v(d))
}

func (m *x86) addAt(d reg, p ptr, off int) {
	m.line("VADDPS %s, %s, %s", at(p, off), m.v(d), m.v(d))
}

func (m *x86) abs(d, a reg)    { m.line("VANDPS %s, %s, %s", m.of(0x7fffffff), m.v(a), m.v(d)) }
func (m *x86) negate(d, a reg) { m.line("VXORPS %s, %s, %s", m.of(0x80000000), m.v(a), m.v(d)) }

// atMost and positive: minimum and maximum return their second operand if one is a NaN, so the constant is the first.
func (m *x86) atMost(d reg, c uint32, tmp reg) {
	m.line("VMINPS %s, %s, %s", m.v(d), m.v(m.inRegister(c, tmp)), m.v(d))
}

func (m *x86) positive(d, tmp reg) {
	m.zero(tmp)
	m.line("VMAXPS %s, %s, %s", m.v(d), m.v(tmp), m.v(d))
}

func (m *x86) toFloat(d, a reg) { m.line("VCVTDQ2PS %s, %s", m.v(a), m.v(d)) }
func (m *x86) toInt(d, a reg)   { m.line("VCVTPS2DQ %s, %s", m.v(a), m.v(d)) }

func (m *x86) horner(p, x reg, c uint32, free reg) (result, other reg) {
	m.line("VFMADD213PS %s, %s, %s", m.of(c), m.v(x), m.v(p))
	return p, free
}

func (m *x86) pow2(d reg) {
	m.line("VPSLLD $23, %s, %s", m.v(d), m.v(d))
	m.doConst("iadd", d, d, 127<<23)
}

func (m *x86) mulUnlessLess(d, a, b, x reg, c uint32, tmp reg) {
	const predicate = 5 // not less than, or unordered
	if m.lanes == 16 {
		m.line("VCMPPS $%d, %s, %s, K1", predicate, m.of(c), m.v(x))
		m.line("VMULPS.Z %s, %s, K1, %s", m.v(b), m.v(a), m.v(d))
		return
	}
	m.do("mul", d, a, b)
	m.line("VCMPPS $%d, %s, %s, %s", predicate, m.of(c), m.v(x), m.v(tmp))
	m.line("VANDPS %s, %s, %s", m.v(tmp), m.v(d), m.v(d))
}

func (m *x86) store8(s []reg, p ptr) {
	if m.lanes == 16 {
		m.line("VPMOVSDB %s, %s", m.v(s[0]), at(p, 0))
		return
	}
	a, b := int(s[0]), int(s[1])
	m.line("VPACKSSDW Y%d, Y%d, Y%d", b, a, a) // words 0–3, 8–11, 4–7, 12–15
	m.line("VPERMQ $0xd8, Y%d, Y%d", a, a)
	m.line("VEXTRACTI128 $1, Y%d, X%d", a, b)
	m.line("VPACKSSWB X%d, X%d, X%d", b, a, a)
	m.line("VMOVDQU X%d, %s", a, at(p, 0))
}

func (m *x86) foldLargest(op string, acc []reg, tmp reg) {
	a, t, most := int(acc[0]), int(tmp), x86Names[op]
	if m.lanes == 16 {
		m.line("VEXTRACTI64X4 $1, Z%d, Y%d", a, t)
		m.line("%s Y%d, Y%d, Y%d", most, t, a, a)
	} else {
		m.do(op, acc[0], acc[0], acc[1])
	}
	m.line("VEXTRACTI128 $1, Y%d, X%d", a, t)
	m.line("%s X%d, X%d, X%d", most, t, a, a)
	for _, order := range []string{"$0x4e", "$0xb1"} {
		m.line("VPSHUFD %s, X%d, X%d", order, a, t)
		m.line("%s X%d, X%d, X%d", most, t, a, a)
	}
	m.line("VPBROADCASTD X%d, %s", a, m.v(acc[0]))
}

// divideLane divides one lane, as a quotient of a whole register takes several times as long.
func (m *x86) divideLane(d, a, b reg) {
	m.line("VDIVSS X%d, X%d, X%d", b, a, d)
	m.line("VBROADCASTSS X%d, %s", d, m.v(d))
}

func (m *x86) storeLane(s reg, p ptr) { m.line("VMOVSS X%d, %s", s, at(p, 0)) }
