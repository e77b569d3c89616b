package main

import (
	"fmt"
	"strings"
)

// Weights that are unpacked once for many tokens. The first tile of tokens stores its operands; dense tiles load them
// instead of making them again. Where VPDPBUSD shares its ports with masks and shifts, as on Intel, unpacking costs a
// fifth of a tile of six tokens by 64 rows. Loads have their own ports.
//
// A call multiplies one panel of 64 rows, or a pair of 32, by some columns of whole rows; their sums are kept in memory
// for the next columns. R15 points at the stored operands. DI points at the operands that dense tiles load, R12 at the
// weights they prefetch.

// roomUse says how a function uses the operand buffer.
type roomUse int

const (
	noRoom roomUse = iota
	fillRoom
	readRoom
)

// denseTiles are the tokens of tiles. As sizes differ by one at most, 13 or more tokens need no smaller tiles.
var denseTiles = []int{4, 5, 6}

func dense512File() *file {
	f := newFile("panels_avx512_dense", "amd64")
	read := map[string]bool{}
	for _, s := range streams512() {
		if s.bits != 2 || s.split > 1 || s.most == 1 {
			continue
		}
		f.dense(s, "First", fillRoom, "the first of many tokens, and leave the operands.")
		s.name, s.what = strings.Replace(s.name, "ternary", "fields2", 1), "2-bit fields as the first tokens left them"
		if !read[s.name] {
			f.dense(s, "Dense", readRoom, "the tokens after them.")
			read[s.name] = true
		}
	}
	return f
}

// dense writes the functions of a stream, and their table.
func (f *file) dense(s stream, name string, room roomUse, tokens string) {
	s.name = strings.Replace(s.name, "AVX512", name+"AVX512", 1)
	funcs := make([]string, s.most)
	for i := range funcs {
		funcs[i] = "nil"
	}
	for _, t := range denseTiles {
		funcs[t-1] = fmt.Sprintf("%sx%d", s.name, t)
		vnni512{stream: &s, tokens: t, room: room}.write(f, func(g *vnni512) { g.denseFunction(funcs[t-1]) })
	}
	f.table(s.name, fmt.Sprintf("multiply %s by %s", s.what, tokens), funcs)
}

func (g *vnni512) denseFunction(name string) {
	sums := g.tokens * g.operands()
	g.copies, g.free = 1, sums
	g.begin(name)
	g.allocate()
	for _, field := range []string{"W DI", "X SI", "Steps CX", "Tokens R14", "Y DX", "Room R15", "Next R12"} {
		g.p("MOVQ Tile_%s", strings.Replace(field, " ", "(AX), ", 1))
	}
	g.prefetchResults()
	none, begun, whole, done := g.newLabel("none"), g.newLabel("begun"), g.newLabel("whole"), g.newLabel("done")
	g.p("MOVQ Tile_From(AX), BX")
	g.p("TESTQ BX, BX")
	g.p("JZ %s", none)
	for i := range sums {
		g.p("VMOVDQU64 %d(BX), Z%d", pace*i, i)
	}
	g.p("JMP %s", begun)
	g.at(none)
	for i := range sums {
		g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	g.at(begun)
	g.columns()
	g.p("MOVQ Tile_To(AX), BX")
	g.p("TESTQ BX, BX")
	g.p("JZ %s", whole)
	for i := range sums {
		g.p("VMOVDQU64 Z%d, %d(BX)", i, pace*i)
	}
	g.p("JMP %s", done)
	g.at(whole)
	g.finish()
	g.at(done)
	g.p("VZEROUPPER")
	g.p("RET")
}

// prefetchResults prefetches the lines of results: each of them is new to the L1 cache, and stores wait for it.
func (g *vnni512) prefetchResults() {
	g.p("MOVQ DX, BX")
	for t := range g.tokens {
		for at := 0; at < 4*g.rows(); at += pace {
			g.p("PREFETCHT0 %d(BX)", at)
		}
		if t < g.tokens-1 {
			g.p("ADDQ R9, BX")
		}
	}
}

// roomBytes is the buffer size for the operands of a step.
func (g *vnni512) roomBytes() int { return pace * g.operands() }

// storeOperands stores the operands of a step at unroll index u.
func (g *vnni512) storeOperands(u int) {
	for i, z := range g.ops {
		g.p("VMOVDQU64 Z%d, %d(R15)", z, u*g.roomBytes()+pace*i)
	}
}

// readOperands loads the operands of a step.
func (g *vnni512) readOperands(u int) {
	for i, z := range g.ops {
		g.p("VMOVDQU64 %d(DI), Z%d", u*g.roomBytes()+pace*i, z)
	}
}

// prefetchNext prefetches a line of the weights that are unpacked next, so that memory is busy meanwhile.
func (g *vnni512) prefetchNext() {
	g.p("PREFETCHT1 (R12)")
	g.p("ADDQ Tile_NextBytes(AX), R12")
}
