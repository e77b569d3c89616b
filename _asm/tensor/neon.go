package main

import (
	"fmt"
	"strings"
)

// arm writes NEON. Go's assembler lacks the vector floating-point instructions: they are written as words, followed by
// the manual's name.
type arm struct{ listing }

func newNEON() *arm { return &arm{} }

const (
	armScratch = reg(31) // for constants without a register
	armGeneral = "R19"   // for loading constants
)

func (m *arm) isa() string    { return "NEON" }
func (m *arm) width() int     { return 4 }
func (m *arm) registers() int { return 31 }

func (m *arm) tile(n int) int {
	if n > 1 {
		return 1
	}
	return 4
}

func (m *arm) sumsAtOnce(n int) int { return m.tile(n) }
func (m *arm) together(int) int     { return 1 }

func (m *arm) queriesAtOnce() int { return 4 }

// word writes an instruction of up to three registers.
func (m *arm) word(name string, code uint32, d, n, s reg) {
	m.line("WORD $0x%08x // %s v%d, v%d, v%d", code|uint32(s)<<16|uint32(n)<<5|uint32(d), name, d, n, s)
}

// word2 writes an instruction of two registers.
func (m *arm) word2(name string, code uint32, d, n reg) {
	m.line("WORD $0x%08x // %s v%d, v%d", code|uint32(n)<<5|uint32(d), name, d, n)
}

func (m *arm) begin(name string, frame int) {
	m.kept = map[uint32]reg{}
	fmt.Fprintf(m, "TEXT ·%sNEON(SB), NOSPLIT, $0-%d\n", name, frame)
}

func (m *arm) end() { m.line("RET\n") }

func (m *arm) text() string {
	var b strings.Builder
	i4Table(&b, 1)
	return b.String() + strings.TrimSuffix(m.String(), "\n")
}

func (m *arm) hoist(take func() reg, body func()) { m.keep(take, body, m.fill) }

// of returns the register that holds a constant in every lane.
func (m *arm) of(c uint32) reg {
	if r, ok := m.kept[c]; ok {
		return r
	}
	m.see(c)
	m.fill(armScratch, c)
	return armScratch
}

func (p ptr) arm() string { return fmt.Sprintf("R%d", int(p)) }

func (m *arm) arg(d ptr, p param) {
	name := p.name
	if strings.HasPrefix(p.typ, "[]") {
		name += "_base"
	}
	m.line("MOVD %s+%d(FP), %s", name, p.offset, d.arm())
}

func (m *arm) length(d ptr, p param) { m.line("MOVD %s_len+%d(FP), %s", p.name, p.offset+8, d.arm()) }

func (m *arm) shift(d ptr, n int) {
	if n < 0 {
		m.line("LSL $%d, %s", -n, d.arm())
	} else if n > 0 {
		m.line("LSR $%d, %s", n, d.arm())
	}
}

func (m *arm) addImm(d ptr, n int) {
	if n < 0 {
		m.line("SUB $%d, %s", -n, d.arm())
	} else {
		m.line("ADD $%d, %s", n, d.arm())
	}
}

func (m *arm) add(d, s ptr)      { m.line("ADD %s, %s", s.arm(), d.arm()) }
func (m *arm) sub(d, s ptr)      { m.line("SUB %s, %s", s.arm(), d.arm()) }
func (m *arm) copy(d, s ptr)     { m.line("MOVD %s, %s", s.arm(), d.arm()) }
func (m *arm) label(name string) { fmt.Fprintf(m, "\n%s:\n", name) }
func (m *arm) jump(to string)    { m.line("B %s", to) }

func (m *arm) jumpLess(r ptr, n int, to string) {
	m.line("CMP $%d, %s", n, r.arm())
	m.line("BLT %s", to)
}

func (m *arm) jumpLeast(r ptr, n int, to string) {
	m.line("CMP $%d, %s", n, r.arm())
	m.line("BGE %s", to)
}

func (m *arm) countDown(r ptr, to string) {
	m.line("SUB $1, %s", r.arm())
	m.line("CBNZ %s, %s", r.arm(), to)
}

func (m *arm) prefetchAt(p ptr, off int) { m.line("PRFM %d(%s), PLDL2KEEP", off, p.arm()) }

func (m *arm) load(d reg, p ptr, off int)  { m.line("FMOVQ %d(%s), F%d", off, p.arm(), d) }
func (m *arm) store(s reg, p ptr, off int) { m.line("FMOVQ F%d, %d(%s)", s, off, p.arm()) }

func (m *arm) loadWide(d reg, typ string, p ptr, off int) {
	switch typ {
	case "F32":
		m.load(d, p, off)
	case "F16":
		m.line("FMOVD %d(%s), F%d", off, p.arm(), d)
		m.word2("fcvtl .4s .4h", 0x0e217800, d, d)
	case "BF16":
		m.line("FMOVD %d(%s), F%d", off, p.arm(), d)
		m.word2("shll #16 .4s .4h", 0x2e613800, d, d)
	case "I8":
		m.line("FMOVS %d(%s), F%d", off, p.arm(), d)
		m.word2("sxtl .8h .8b", 0x0f08a400, d, d)
		m.word2("sxtl .4s .4h", 0x0f10a400, d, d)
		m.toFloat(d, d)
	}
}

func (m *arm) storeF16(s reg, p ptr, off int) {
	m.word2("fcvtn .4h .4s", 0x0e216800, s, s)
	m.line("FMOVD F%d, %d(%s)", s, off, p.arm())
}

func (m *arm) splat(d reg, p param) {
	m.line("FMOVS %s+%d(FP), F%d", p.name, p.offset, d)
	m.word2("dup .4s .s[0]", 0x4e040400, d, d)
}

func (m *arm) splatAt(d reg, p ptr, off int) {
	m.line("FMOVS %d(%s), F%d", off, p.arm(), d)
	m.word2("dup .4s .s[0]", 0x4e040400, d, d)
}

func (m *arm) zero(d reg)    { m.line("VEOR V%d.B16, V%d.B16, V%d.B16", d, d, d) }
func (m *arm) move(d, s reg) { m.line("VMOV V%d.B16, V%d.B16", s, d) }

func (m *arm) constant(d reg, c uint32) { m.move(d, m.of(c)) }

func (m *arm) fill(d reg, c uint32) {
	m.line("MOVW $0x%08x, %s", c, armGeneral)
	m.line("VDUP %s, V%d.S4", armGeneral, d)
}

var armNames = map[string]struct {
	name string
	code uint32
}{
	"add": {"fadd .4s", 0x4e20d400}, "sub": {"fsub .4s", 0x4ea0d400}, "mul": {"fmul .4s", 0x6e20dc00},
	"div": {"fdiv .4s", 0x6e20fc00}, "max": {"fmax .4s", 0x4e20f400}, "min": {"fmin .4s", 0x4ea0f400},
	"fma": {"fmla .4s", 0x4e20cc00}, "fms": {"fmls .4s", 0x4ea0cc00},
	"iadd": {"add .4s", 0x4ea08400}, "imin": {"smin .4s", 0x4ea06c00}, "imax": {"smax .4s", 0x4ea06400},
}

func (m *arm) do(op string, d, a, b reg) {
	o := armNames[op]
	m.word(o.name, o.code, d, a, b)
}

func (m *arm) doConst(op string, d, a reg, c uint32) { m.do(op, d, a, m.of(c)) }

func (m *arm) multiplyAdd(d, a, b reg)             { m.do("fma", d, a, b) }
func (m *arm) multiplySub(d, a, b reg)             { m.do("fms", d, a, b) }
func (m *arm) multiplyAddConst(d, a reg, c uint32) { m.do("fma", d, a, m.of(c)) }

func (m *arm) multiplyAddAt(d, a reg, p ptr, off int) {
	m.load(armScratch, p, off)
	m.multiplyAdd(d, a, armScratch)
}

func (m *arm) addAt(d reg, p ptr, off int) {
	m.load(armScratch, p, off)
	m.do("add", d, d, armScratch)
}

func (m *arm) abs(d, a reg)    { m.word2("fabs .4s", 0x4ea0f800, d, a) }
func (m *arm) negate(d, a reg) { m.word2("fneg .4s", 0x6ea0f800, d, a) }

// atMost and positive: NEON's minimum and maximum propagate NaN.
func (m *arm) atMost(d reg, c uint32, _ reg) { m.doConst("min", d, d, c) }
func (m *arm) positive(d, tmp reg) {
	m.zero(tmp)
	m.do("max", d, d, tmp)
}

func (m *arm) toFloat(d, a reg) { m.word2("scvtf .4s", 0x4e21d800, d, a) }
func (m *arm) toInt(d, a reg)   { m.word2("fcvtns .4s", 0x4e21a800, d, a) }

func (m *arm) horner(p, x reg, c uint32, free reg) (result, other reg) {
	m.constant(free, c)
	m.multiplyAdd(free, p, x)
	return free, p
}

func (m *arm) pow2(d reg) {
	m.word2("shl #23 .4s", 0x4f375400, d, d)
	m.doConst("iadd", d, d, 127<<23)
}

func (m *arm) mulUnlessLess(d, a, b, x reg, c uint32, tmp reg) {
	m.do("mul", d, a, b)
	m.word("fcmgt .4s", 0x6ea0e400, tmp, m.of(c), x)
	m.word("bic .16b", 0x4e601c00, d, d, tmp)
}

func (m *arm) store8(s []reg, p ptr) {
	m.word2("sqxtn .4h .4s", 0x0e614800, s[0], s[0])
	m.word2("sqxtn2 .8h .4s", 0x4e614800, s[0], s[1])
	m.word2("sqxtn .4h .4s", 0x0e614800, s[2], s[2])
	m.word2("sqxtn2 .8h .4s", 0x4e614800, s[2], s[3])
	m.word2("sqxtn .8b .8h", 0x0e214800, s[0], s[0])
	m.word2("sqxtn2 .16b .8h", 0x4e214800, s[0], s[2])
	m.store(s[0], p, 0)
}

func (m *arm) foldLargest(op string, acc []reg, _ reg) {
	m.do(op, acc[0], acc[0], acc[1])
	m.do(op, acc[2], acc[2], acc[3])
	m.do(op, acc[0], acc[0], acc[2])
	if op == "max" {
		m.word2("fmaxv .4s", 0x6e30f800, acc[0], acc[0])
	} else {
		m.word2("smaxv .4s", 0x4eb0a800, acc[0], acc[0])
	}
	m.word2("dup .4s .s[0]", 0x4e040400, acc[0], acc[0])
}

func (m *arm) divideLane(d, a, b reg) { m.do("div", d, a, b) }
func (m *arm) storeLane(s reg, p ptr) { m.line("FMOVS F%d, (%s)", s, p.arm()) }

// dotI8 needs the dot product extension of ARMv8.2, 16 columns at a time.
func (m *arm) dotI8(acc [][]reg, w ptr, x []ptr, n int) {
	for s := range 2 * n {
		m.load(0, w, 16*s)
		for t, p := range x {
			m.load(1, p, 16*s)
			m.word("sdot .4s .16b", 0x4e809400, acc[t][s%2], 0, 1)
		}
	}
}

func (m *arm) prepareSums()       {}
func (m *arm) prepareWide(string) {}

func (m *arm) startI8([]reg, []ptr, int) bool { return false }

func (m *arm) sums(acc [][][]reg, integers bool, p, step ptr, tmp []reg) {
	add := "add"
	if integers {
		add = "iadd"
	}
	for _, rows := range acc {
		for _, a := range rows { // lanes + 8 and + 4
			m.do(add, a[0], a[0], a[2])
			m.do(add, a[1], a[1], a[3])
			m.do(add, a[0], a[0], a[1])
		}
	}
	vectors, rows := len(acc), len(acc[0])
	switch {
	case vectors == 4 && rows == 1:
		r := m.sums4(acc[0][0][0], acc[1][0][0], acc[2][0][0], acc[3][0][0], add, tmp)
		m.line("FMOVS F%d, (%s)", r, p.arm())
		for i := 1; i < 4; i++ {
			m.add(p, step)
			m.line("VST1 V%d.S[%d], (%s)", r, i, p.arm())
		}
	case vectors == 1 && rows == 4:
		m.store(m.sums4(acc[0][0][0], acc[0][1][0], acc[0][2][0], acc[0][3][0], add, tmp), p, 0)
	case rows == 1:
		for i := range acc {
			a, t := acc[i][0][0], tmp[0]
			m.word("ext #8 .16b", 0x6e004000, t, a, a)
			m.do(add, a, a, t)
			m.word("ext #4 .16b", 0x6e002000, t, a, a)
			m.do(add, a, a, t)
			m.line("FMOVS F%d, (%s)", a, p.arm())
			if i < vectors-1 {
				m.add(p, step)
			}
		}
	default:
		panic("tensor: no sums of so many vectors and rows")
	}
}

// sums4 joins four registers in one. Lane + 2: [a a b b] and [c c d d]; lane + 1: [a b c d].
func (m *arm) sums4(a, b, c, d reg, add string, tmp []reg) reg {
	t0, t1, t2, t3 := tmp[0], tmp[1], tmp[2], tmp[3]
	m.word("zip1 .2d", 0x4ec03800, t0, a, b)
	m.word("zip2 .2d", 0x4ec07800, t1, a, b)
	m.word("zip1 .2d", 0x4ec03800, t2, c, d)
	m.word("zip2 .2d", 0x4ec07800, t3, c, d)
	m.do(add, t0, t0, t1)
	m.do(add, t2, t2, t3)
	m.word("uzp1 .4s", 0x4e801800, t1, t0, t2)
	m.word("uzp2 .4s", 0x4e805800, t3, t0, t2)
	m.do(add, t1, t1, t3)
	return t1
}

func (m *arm) loadRows(d reg, groups []ptr, r int, ld, ld3 ptr) {
	p := groups[0].arm()
	switch r {
	case 1:
		m.line("ADD %s, %s, %s", ld.arm(), p, armGeneral)
	case 2:
		m.line("ADD %s<<1, %s, %s", ld.arm(), p, armGeneral)
	case 3:
		m.line("ADD %s, %s, %s", ld3.arm(), p, armGeneral)
	}
	if r > 0 {
		p = armGeneral
	}
	m.line("FMOVQ (%s), F%d", p, d)
}

func (m *arm) transpose4(d, tmp [4]reg) {
	m.word("zip1 .4s", 0x4e803800, tmp[0], d[0], d[1])
	m.word("zip2 .4s", 0x4e807800, tmp[1], d[0], d[1])
	m.word("zip1 .4s", 0x4e803800, tmp[2], d[2], d[3])
	m.word("zip2 .4s", 0x4e807800, tmp[3], d[2], d[3])
	m.word("zip1 .2d", 0x4ec03800, d[0], tmp[0], tmp[2])
	m.word("zip2 .2d", 0x4ec07800, d[1], tmp[0], tmp[2])
	m.word("zip1 .2d", 0x4ec03800, d[2], tmp[1], tmp[3])
	m.word("zip2 .2d", 0x4ec07800, d[3], tmp[1], tmp[3])
}
