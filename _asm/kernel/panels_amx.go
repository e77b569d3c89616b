package main

import (
	"fmt"
	"strings"
)

// Products of panels on the tile registers of AMX: a tile of 16 tokens by 64 columns, times one of 64 columns by 16
// rows of weights, is added to one of 16 × 16 sums. Codes are decoded to signed bytes, so there is no zero-point
// correction.
//
// A function processes 32 rows of each panel, two tiles. It unpacks the weights of some columns into a buffer that
// stays in the L1 cache, in the order of VNNI4 (tile rows are groups of four columns), multiplies all tokens by them,
// 32 at a time, and keeps the sums of 32 tokens and rows in memory until the next columns. docs/KERNELS.md has sources
// and bounds.
//
// General registers: DI arguments, SI packed weights, R10 activations of the columns in the buffer, R12 remaining
// tokens, R13 their activations, R14 their results, R15 their sums. While products are added: SI and AX activations of
// two tiles, DX bytes between tokens, BX weights, R8 bytes between their groups of four columns, CX steps of 64
// columns, R9 and R11 prefetches.

const (
	quadsAMX = 16   // groups of four columns in a tile
	roomQuad = 128  // bytes of a group in the buffer
	weightZ  = 18   // register of packed weights, where those of a whole step have no room
	sumPage  = 4096 // from tile to tile of sums: a load waits for a store at the same place in another page
)

// opener says how weights are unpacked.
type opener struct {
	name, what string
	quad       int // packed bytes of a group of four columns
	// packed in the order of the buffer: whole tiles are multiplied in place
	direct bool
	tables []int                           // registers that hold asm.AMX.Table
	load   func(f *file, at string, z int) // loads a group, or as much of it as a register holds
	open   func(f *file, at string, z int) // unpacks it into registers 16 and 17
}

// rows is the name of the function for whole rows.
func (o opener) rows() string { return strings.TrimSuffix(o.name, "AMX") + "RowsAMX" }

func openersAMX() []opener {
	fields := func(name, what string, quad int, load string) opener {
		return opener{name, what, quad, false, []int{31, 30, 29},
			func(f *file, at string, z int) { f.p("%s %s, Z%d", load, at, z) },
			func(f *file, _ string, z int) {
				f.p("VPSRLVQ Z30, Z%d, Z16", z)
				f.p("VPSRLVQ Z29, Z%d, Z17", z)
				for _, tile := range []int{16, 17} {
					// six bits index: other fields are not masked, the table repeats
					f.p("VPERMB Z31, Z%d, Z%d", tile, tile)
				}
			}}
	}
	bytes := func(name, what string, quad int) opener {
		return opener{name, what, quad, true, nil,
			func(f *file, at string, z int) {
				f.p("VMOVDQU64 %s, Z16", at)
				f.p("VMOVDQU64 64%s, Z17", at)
			},
			func(*file, string, int) {}}
	}
	// An affine transformation with all rows of its matrix equal but the last, which is zero, fills a byte with the bit
	// that they select, and adds 1: 0 and 1 become +1 and −1.
	signs := func(name, what string, quad int, load string, open func(f *file, at string, z int)) opener {
		return opener{name, what, quad, false, []int{31, 30, 29},
			func(f *file, at string, z int) { f.p("%s %s, Z%d", load, at, z) }, open}
	}
	bits := func(f *file, _ string, z int) { // in the order of the buffer; matrices hold the bits of two rows
		for i, tile := range []int{16, 17} {
			f.p("VPSHUFB Z%d, Z%d, Z%d", 30-i, z, tile)
			f.p("VGF2P8AFFINEQB $1, Z%d, Z31, Z%d", tile, tile)
		}
	}
	interleaved := func(f *file, _ string, z int) {
		f.p("VGF2P8AFFINEQB $1, Z31, Z%d, Z16", z)
		f.p("VGF2P8AFFINEQB $1, Z30, Z%d, Z17", z)
	}
	list := []opener{
		signs("Bits16AMX", "bits, four columns in 16 bytes", 16, "VBROADCASTI32X4", bits),
		signs("Bits32AMX", "one half of bits, four columns in 32 bytes", 32, "VBROADCASTI32X4", bits),
		signs("InterleavedBits16AMX", "interleaved bits, four columns in 16 bytes", 16, "VBROADCASTI32X4",
			interleaved),
		signs("InterleavedBits32AMX", "one half of interleaved bits, four columns in 32 bytes", 32,
			"VBROADCASTI64X4", interleaved),
		fields("Fields32AMX", "fields, four columns in 32 bytes", 32, "VBROADCASTI64X4"),
		fields("Fields64AMX", "fields, four columns in 64 bytes", 64, "VMOVDQU64"),
		fields("Fields128AMX", "one half of fields, four columns in 128 bytes", 128, "VMOVDQU64"),
		bytes("Bytes128AMX", "int8, four columns in 128 bytes", 128),
		bytes("Bytes256AMX", "one half of int8, four columns in 256 bytes", 256),
		{"Base3AMX", "two digits of base-3 bytes", 64, false, []int{24, 25, 26, 27, 28, 29, 30, 31},
			func(f *file, at string, z int) { f.p("VMOVDQU64 %s, Z%d", at, z) },
			func(f *file, _ string, z int) { // a table of 256 bytes is two of 128
				f.p("VPMOVB2M Z%d, K1", z)
				f.p("KNOTQ K1, K2")
				for i, tile := range []int{16, 17} {
					f.p("VMOVDQA64 Z%d, Z%d", z, tile)
					f.p("VPERMI2B Z%d, Z%d, K2, Z%d", 25+4*i, 24+4*i, tile)
					f.p("VPERMI2B Z%d, Z%d, K1, Z%d", 27+4*i, 26+4*i, tile)
				}
			}},
	}
	for _, p := range planeKinds {
		list = append(list, openerOfPlanes(p))
	}
	return list
}

func amxFile() *file {
	f := newFile("panels_amx", "amd64")
	for _, o := range openersAMX() {
		f.declare(o.name, "multiplies 32 rows of each panel on tile registers: "+o.what+".", "t *AMX", 1)
		g := &tilesAMX{f, o, false}
		g.function()
		f.declare(o.rows(), "is "+o.name+" for one group.", "t *AMX", 1)
		(&rowsAMX{g, "R12"}).function()
	}
	scaleSums(f)
	return f
}

// tilesAMX emits the function for an opener.
type tilesAMX struct {
	*file
	opener
	passes bool // columns are multiplied by passes of AMXGroups, not by steps
}

func (g *tilesAMX) function() {
	panel, group, columns := g.newLabel("panel"), g.newLabel("group"), g.newLabel("columns")
	g.beginTiles()
	g.loadTables(g.opener)
	g.copyField("W", "PanelW")
	g.copyField("Y", "PanelY")
	g.at(panel)
	g.p("MOVQ AMX_PanelW(DI), SI")
	g.p("MOVQ AMX_X(DI), R10")
	g.copyField("PanelY", "GroupY")
	g.copyField("Groups", "GroupsLeft")
	g.at(group)
	g.p("MOVQ AMX_Quads(DI), AX")
	g.p("DECQ AMX_GroupsLeft(DI)")
	g.p("CMOVQEQ AMX_LastQuads(DI), AX")
	g.p("MOVQ AX, AMX_QuadsLeft(DI)")
	g.p("MOVQ $0, AMX_Begun(DI)")
	g.at(columns)
	g.take()
	g.tokens(g.products)
	g.p("MOVQ AMX_Packed(DI), SI")
	g.p("ADDQ AMX_Columns(DI), R10")
	g.p("MOVQ $1, AMX_Begun(DI)")
	g.p("CMPQ AMX_QuadsLeft(DI), $0")
	g.p("JNE %s", columns)
	g.p("MOVQ AMX_LdGroup(DI), AX")
	g.p("ADDQ AX, AMX_GroupY(DI)")
	g.p("CMPQ AMX_GroupsLeft(DI), $0")
	g.p("JNE %s", group)
	g.p("MOVQ AMX_PanelBytes(DI), AX")
	g.p("ADDQ AX, AMX_PanelW(DI)")
	g.p("MOVQ AMX_LdPanel(DI), AX")
	g.p("ADDQ AX, AMX_PanelY(DI)")
	g.p("DECQ AMX_Panels(DI)")
	g.p("JNZ %s", panel)
	g.endTiles()
}

// beginTiles takes the arguments and configures the registers.
func (f *file) beginTiles() {
	f.p("MOVQ t+0(FP), DI")
	f.p("LEAQ AMX_Config(DI), AX")
	f.tileConfig("AX")
}

// endTiles releases the registers and returns.
func (f *file) endTiles() {
	f.tileRelease()
	f.p("VZEROUPPER")
	f.p("RET")
}

// loadTables loads what an opener unpacks by.
func (f *file) loadTables(o opener) {
	for i, z := range o.tables {
		f.p("VMOVDQU64 (AMX_Table+%d)(DI), Z%d", 64*i, z)
	}
}

func (g *tilesAMX) copyField(from, to string) {
	g.p("MOVQ AMX_%s(DI), AX", from)
	g.p("MOVQ AX, AMX_%s(DI)", to)
}

// take unpacks the weights of the next columns, up to the size of the buffer. Activations past the end are not zero if
// another group follows, so the activations of an incomplete tile are multiplied by zeros.
func (g *tilesAMX) take() {
	whole, rest := g.newLabel("whole"), g.newLabel("rest")
	one, opened := g.newLabel("one"), g.newLabel("opened")
	g.p("MOVQ AMX_QuadsLeft(DI), AX")
	g.p("MOVQ AMX_RoomQuads(DI), CX")
	g.p("CMPQ CX, AX")
	g.p("CMOVQGT AX, CX")
	g.p("SUBQ CX, AX")
	g.p("MOVQ AX, AMX_QuadsLeft(DI)")
	g.p("LEAQ (CX*4), AX")
	g.p("MOVQ AX, AMX_Columns(DI)")
	g.p("LEAQ %d(CX), AX", quadsAMX-1)
	g.p("SHRQ $4, AX")
	g.p("MOVQ AX, AMX_Steps(DI)")
	g.copyField("Room", "B")
	g.p("MOVQ AX, BX")
	g.p("MOVQ $%d, R8", roomQuad)
	if g.direct {
		if g.passes {
			g.p("MOVQ AMXGroups_TakenQuads(DI), AX")
			g.p("DECQ AX")
			g.p("TESTQ AX, CX")
		} else {
			g.p("TESTQ $%d, CX", quadsAMX-1)
		}
		g.p("JNZ %s", one)
		g.p("MOVQ SI, AMX_B(DI)")
		g.p("MOVQ $%d, R8", g.quad)
		g.p("IMULQ R8, CX")
		g.p("ADDQ CX, SI")
		g.p("JMP %s", opened)
	} else {
		g.p("SUBQ $%d, CX", quadsAMX)
		g.p("JLT %s", rest)
		for z := range quadsAMX {
			g.load(g.file, fmt.Sprintf("%d(SI)", z*g.quad), z)
		}
		g.at(whole) // load before storing: loads wait for stores at the same offset in another page
		g.p("ADDQ $%d, SI", quadsAMX*g.quad)
		g.p("MOVQ SI, R9")
		g.p("LEAQ %d(SI), AX", -quadsAMX*g.quad)
		g.p("SUBQ $%d, CX", quadsAMX)
		g.p("CMOVQLT AX, R9") // nothing is next: these once more
		for z := range quadsAMX {
			g.open(g.file, fmt.Sprintf("%d(AX)", z*g.quad), z)
			g.load(g.file, fmt.Sprintf("%d(R9)", z*g.quad), z)
			g.storeAt("BX", z*roomQuad)
		}
		g.p("ADDQ $%d, BX", quadsAMX*roomQuad)
		g.p("TESTQ CX, CX")
		g.p("JGE %s", whole)
		g.at(rest)
		g.p("ADDQ $%d, CX", quadsAMX)
		g.p("JZ %s", opened)
	}
	g.at(one)
	g.p("MOVQ AMX_Steps(DI), AX")
	g.p("SHLQ $11, AX") // bytes of a step in the room
	g.p("ADDQ AMX_Room(DI), AX")
	g.incomplete("AX")
	g.at(opened)
	g.p("MOVQ SI, AMX_Packed(DI)")
	if !g.passes {
		g.p("MOVQ SI, AMX_Ahead(DI)")
	}
}

// incomplete unpacks CX groups of four columns to BX, and fills the room from there to the end with zeros.
func (g *tilesAMX) incomplete(end string) {
	one, zero, zeros := g.newLabel("one"), g.newLabel("zero"), g.newLabel("zeros")
	g.at(one)
	g.load(g.file, "(SI)", weightZ)
	g.open(g.file, "(SI)", weightZ)
	g.storeAt("BX", 0)
	g.p("ADDQ $%d, SI", g.quad)
	g.p("ADDQ $%d, BX", roomQuad)
	g.p("DECQ CX")
	g.p("JNZ %s", one)
	for _, z := range []int{16, 17} {
		g.p("VPXORQ Z%d, Z%d, Z%d", z, z, z)
	}
	g.p("JMP %s", zeros)
	g.at(zero)
	g.storeAt("BX", 0)
	g.p("ADDQ $%d, BX", roomQuad)
	g.at(zeros)
	g.p("CMPQ BX, %s", end)
	g.p("JLT %s", zero)
}

func (g *tilesAMX) storeAt(base string, at int) {
	for i, z := range []int{16, 17} {
		g.p("VMOVDQU64 Z%d, %d(%s)", z, at+64*i, base)
	}
}

// tokens multiplies all tokens by the weights in the buffer, 32 at a time. The last tile of tokens is a whole one that
// may overlap the previous tile: shared tokens get the same sums again. Fewer than 16 tokens are one tile of fewer
// rows.
func (g *tilesAMX) tokens(products func(tiles int)) {
	pair, single, done := g.newLabel("pair"), g.newLabel("single"), g.newLabel("done")
	g.p("MOVQ AMX_Tokens(DI), R12")
	g.p("MOVQ R10, R13")
	g.p("MOVQ AMX_GroupY(DI), R14")
	g.p("MOVQ AMX_Sums(DI), R15")
	g.at(pair)
	g.p("MOVQ R12, AX")
	g.p("SUBQ AMX_Rows(DI), AX")
	g.p("JLE %s", single)
	g.p("MOVQ $16, CX")
	g.p("CMPQ AX, CX")
	g.p("CMOVQGT CX, AX")
	g.p("MOVQ AX, CX")
	g.p("IMULQ AMX_LdY(DI), CX")
	g.p("ADDQ R14, CX")
	g.p("MOVQ CX, AMX_SecondY(DI)")
	g.p("IMULQ AMX_LdX(DI), AX")
	g.p("ADDQ R13, AX")
	products(2)
	for _, r := range [][2]string{{"LdX", "R13"}, {"LdY", "R14"}} {
		g.p("MOVQ AMX_%s(DI), AX", r[0])
		g.p("SHLQ $5, AX")
		g.p("ADDQ AX, %s", r[1])
	}
	g.p("ADDQ $%d, R15", 4*sumPage)
	g.p("SUBQ $32, R12")
	g.p("JGT %s", pair)
	g.p("JMP %s", done)
	g.at(single) // AX tokens back
	g.p("MOVQ AX, CX")
	g.p("IMULQ AMX_LdX(DI), AX")
	g.p("ADDQ AX, R13")
	g.p("IMULQ AMX_LdY(DI), CX")
	g.p("ADDQ CX, R14")
	products(1)
	g.at(done)
}

// Tiles: sums of the first 16 tokens, then of the second, two each, for two tiles of weights.
const (
	tokensAMX  = 4
	weightsAMX = 6
)

// products adds the products of one or two tiles of tokens with the weights in the buffer to their sums.
func (g *tilesAMX) products(tiles int) {
	first, begun, step := g.newLabel("first"), g.newLabel("begun"), g.newLabel("step")
	prefetch, last, stored := g.newLabel("prefetch"), g.newLabel("last"), g.newLabel("stored")
	g.p("CMPQ AMX_Begun(DI), $0")
	g.p("JEQ %s", first)
	g.p("MOVQ $64, R9")
	for i := range 2 * tiles {
		g.tileLoad(i, i*sumPage, "R15", "R9")
	}
	g.p("JMP %s", begun)
	g.at(first)
	for i := range 2 * tiles {
		g.tileZero(i)
	}
	g.at(begun)
	g.p("MOVQ R13, SI")
	g.p("MOVQ AMX_LdX(DI), DX")
	g.p("MOVQ AMX_B(DI), BX")
	g.p("MOVQ AMX_Steps(DI), CX")
	g.p("MOVQ AMX_Ahead(DI), R9")
	g.p("PCALIGN $64")
	g.at(step)
	g.p("MOVQ AMX_Lines(DI), R11")
	g.at(prefetch)
	g.p("PREFETCHT0 (R9)")
	g.p("ADDQ $64, R9")
	g.p("DECQ R11")
	g.p("JNZ %s", prefetch)
	g.tileLoadFar(tokensAMX, 0, "SI", "DX") // so that the weights stay in the nearest cache
	for i := range 2 {
		g.tileLoad(weightsAMX+i, 64*i, "BX", "R8")
		g.tileDot(i, tokensAMX, weightsAMX+i)
	}
	if tiles == 2 {
		g.tileLoadFar(tokensAMX+1, 0, "AX", "DX")
		for i := range 2 {
			g.tileDot(2+i, tokensAMX+1, weightsAMX+i)
		}
		g.p("ADDQ $64, AX")
	}
	g.p("ADDQ $64, SI")
	for range quadsAMX / 8 {
		g.p("LEAQ (BX)(R8*8), BX")
	}
	g.p("DECQ CX")
	g.p("JNZ %s", step)
	g.p("MOVQ R9, AMX_Ahead(DI)")
	g.p("CMPQ AMX_QuadsLeft(DI), $0")
	g.p("JEQ %s", last)
	g.p("MOVQ $64, R9")
	for i := range 2 * tiles {
		g.tileStore(i, i*sumPage, "R15", "R9")
	}
	g.p("JMP %s", stored)
	g.at(last)
	g.results(tiles)
	g.at(stored)
}

// results stores sums where results belong.
func (g *tilesAMX) results(tiles int) {
	g.p("MOVQ AMX_LdY(DI), DX")
	g.p("MOVQ AMX_TileY(DI), R9")
	g.p("LEAQ (R14)(R9*1), BX")
	g.tileStore(0, 0, "R14", "DX")
	g.tileStore(1, 0, "BX", "DX")
	if tiles == 2 {
		g.p("MOVQ AMX_SecondY(DI), AX")
		g.p("LEAQ (AX)(R9*1), BX")
		g.tileStore(2, 0, "AX", "DX")
		g.tileStore(3, 0, "BX", "DX")
	}
}

// scaleSums emits the processing of the sums of a group (asm.Scaling).
func scaleSums(f *file) {
	f.declare("ScaleSums", "adds scaled sums to results.", "t *Scaling", 1)
	f.p("MOVQ t+0(FP), DI")
	for _, r := range [][2]string{{"Sums", "SI"}, {"LdSums", "R8"}, {"Y", "BX"}, {"LdY", "R9"}, {"N", "CX"},
		{"Tokens", "R14"}, {"Scales", "AX"}, {"Zeros", "DX"}} {
		f.p("MOVQ Scaling_%s(DI), %s", r[0], r[1])
	}
	const sums, y, weights, zeros, sum = "Z0", "Z1", "Z2", "Z3", "Z4"
	loop := func(scaled, less bool) {
		next := f.newLabel("token")
		f.at(next)
		f.p("VMOVDQU64 (SI), %s", sums)
		if less {
			f.p("VPBROADCASTD TokenGroup_Sum(R14), %s", sum)
			f.p("VPMULLD %s, %s, %s", zeros, sum, sum)
			f.p("VPSUBD %s, %s, %s", sum, sums, sums)
		}
		f.p("VCVTDQ2PS %s, %s", sums, sums)
		f.p("VMOVUPS (BX), %s", y)
		if scaled {
			f.p("VMULPS.BCST TokenGroup_Scale(R14), %s, %s", sums, sums)
			f.p("VFMADD231PS %s, %s, %s", weights, sums, y)
		} else {
			f.p("VFMADD231PS.BCST TokenGroup_Scale(R14), %s, %s", sums, y)
		}
		f.p("VMOVUPS %s, (BX)", y)
		f.p("ADDQ R8, SI")
		f.p("ADDQ R9, BX")
		f.p("ADDQ $TokenGroup__size, R14")
		f.p("DECQ CX")
		f.p("JNZ %s", next)
		f.p("VZEROUPPER")
		f.p("RET")
	}
	plain, exact := f.newLabel("plain"), f.newLabel("exact")
	f.p("TESTQ AX, AX")
	f.p("JZ %s", plain)
	f.p("VMOVUPS (AX), %s", weights)
	for _, scaled := range []bool{true, false} {
		f.p("TESTQ DX, DX")
		f.p("JZ %s", exact)
		f.p("VPMOVSXBD (DX), %s", zeros)
		loop(scaled, true)
		f.at(exact)
		loop(scaled, false)
		if scaled {
			f.at(plain)
			exact = f.newLabel("exact")
		}
	}
}
