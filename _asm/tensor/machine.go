package main

// machine writes the instructions of one instruction set. Vector registers are numbers; a register holds width floats.
// Memory operands are a pointer register and an offset in bytes.
type machine interface {
	begin(name string, frame int)
	end() // returns to Go
	text() string
	isa() string
	width() int           // floats in a register
	registers() int       // vector registers that programs may use
	tile(n int) int       // rows that a dot product of n vectors processes at once
	sumsAtOnce(n int) int // rows whose accumulators for n vectors are kept in registers, to reduce their lanes together
	together(n int) int   // rows of these that may be multiplied by n vectors at once
	queriesAtOnce() int   // queries whose scores are computed at once

	// General registers.
	arg(d ptr, p param)                // d = a pointer, the base of a slice, or an integer
	length(d ptr, p param)             // d = length of a slice
	shift(d ptr, n int)                // d >>= n, or d <<= −n
	addImm(d ptr, n int)               //
	add(d, s ptr)                      //
	sub(d, s ptr)                      //
	copy(d, s ptr)                     //
	label(name string)                 // unique in the function
	jumpLess(r ptr, n int, to string)  // signed
	jumpLeast(r ptr, n int, to string) // if r ≥ n, signed
	jump(to string)                    //
	countDown(r ptr, to string)        // r--; jump unless zero

	// hoist may keep the constants that body uses in registers from take, from here to the end of the function.
	hoist(take func() reg, body func())

	// Vectors.
	load(d reg, p ptr, off int)
	store(s reg, p ptr, off int)
	prefetchAt(p ptr, off int)                  // the line there, into the L2 cache
	prepareWide(typ string)                     // once, before the first loadWide of a dot product
	loadWide(d reg, typ string, p ptr, off int) // width elements of "F32", "F16", "BF16" or "I8", as floats
	storeF16(s reg, p ptr, off int)             // width floats as "F16", rounded once; destroys s
	splat(d reg, p param)                       // a float argument in every lane
	splatAt(d reg, p ptr, off int)              // a float from memory in every lane
	zero(d reg)
	move(d, s reg)
	constant(d reg, bits uint32)
	do(op string, d, a, b reg) // float add, sub, mul, div, max; int32 imax
	// float add, sub, mul; int32 iadd, imin, imax: with a constant in every lane
	doConst(op string, d, a reg, b uint32)
	multiplyAdd(d, a, b reg)                // d = a·b + d, rounded once
	multiplySub(d, a, b reg)                // d = −a·b + d, rounded once
	multiplyAddConst(d, a reg, c uint32)    // d = a·c + d, rounded once
	multiplyAddAt(d, a reg, p ptr, off int) // d = a·memory + d, rounded once
	addAt(d reg, p ptr, off int)            // d += memory
	abs(d, a reg)                           // clears the sign
	negate(d, a reg)                        // flips the sign
	atMost(d reg, c uint32, tmp reg)        // d = min(d, c); a NaN stays
	positive(d, tmp reg)                    // d = max(d, 0); a NaN stays
	toFloat(d, a reg)                       // int32 to float
	toInt(d, a reg)                         // float to int32, ties to even
	// horner returns the register of p·x + c, rounded once, and the other one of p and free.
	horner(p, x reg, c uint32, free reg) (result, other reg)
	// pow2 sets d, the float n + 12582912 with an integer n from −126 to 127, to 2^n: n is its lowest bits.
	pow2(d reg)
	mulUnlessLess(d, a, b, x reg, c uint32, tmp reg) // d = a·b, +0 where x < c
	store8(s []reg, p ptr)                           // a block of 16 int32 as int8; destroys s

	// acc[0] = the largest of a block of 16 lanes, in every lane, by "max" or "imax"; destroys the others
	foldLargest(op string, acc []reg, tmp reg)
	divideLane(d, a, b reg) // d = a / b of the first lane, in every lane
	storeLane(s reg, p ptr) // the first lane

	// sums reduces the lanes of the accumulators [vector][row], floats by N5 or integers, and stores the sums of a
	// vector consecutively, step bytes apart per vector. Each accumulator is a block of 16 lanes; there are 1 or 4
	// vectors and 1 or 4 rows. p, the accumulators and the four registers tmp are destroyed.
	sums(acc [][][]reg, integers bool, p, step ptr, tmp []reg)
	prepareSums() // once, before the first sums

	// valuesI4 stores the values of block i, of at most four, of the codes of I4 at x; prepareI4 comes once before it.
	prepareI4()
	valuesI4(y, x ptr, i int)

	// loadRows loads four floats of row r of each group of four rows: groups are pointers to their first rows, ld and
	// ld3 once and three times the distance of two rows. transpose4 transposes the 4 × 4 floats of every 128 bits.
	loadRows(d reg, groups []ptr, r int, ld, ld3 ptr)
	transpose4(d, tmp [4]reg)

	// dotI8 adds the products of n steps of 32 columns of int8, of the row at w with the vectors at x, in int32.
	// Registers from 0 on that are not accumulators are free. startI8 sets the initial accumulators for n steps; false
	// means zero.
	dotI8(acc [][]reg, w ptr, x []ptr, n int)
	startI8(start []reg, x []ptr, n int) bool
}

type (
	reg int
	ptr int
)

// subs is the number of registers in a block of 16 lanes.
func subs(m machine) int { return 16 / m.width() }

// function helps to write the body of one op.
type function struct {
	machine
	op   *op
	ptrs map[string]ptr // pointer registers of parameters
	next ptr
	top  reg               // registers from here on are in use; 0 = none
	lane func(sub int) reg // of the lanes of parameter l
}

func (f *function) pointer() ptr { f.next++; return f.next - 1 }

// take reserves n registers from the top.
func (f *function) take(n int) []reg {
	if f.top == 0 {
		f.top = reg(f.registers())
	}
	f.top -= reg(n)
	r := make([]reg, n)
	for i := range r {
		r[i] = f.top + reg(i)
	}
	return r
}

// prefetch prefetches the lines that start within n bytes from p + off on.
func (f *function) prefetch(p ptr, off, n int) {
	for at := (off + 63) &^ 63; at < off+n; at += 64 {
		f.prefetchAt(p, at)
	}
}

// scalar reserves a register for a float argument.
func (f *function) scalar(name string) reg {
	r := f.take(1)[0]
	f.splat(r, f.op.param(name))
	return r
}

// in and out load and store a register of the block of a slice.
func (f *function) in(d reg, name string, sub int)  { f.load(d, f.ptrs[name], 4*f.width()*sub) }
func (f *function) out(name string, sub int, s reg) { f.store(s, f.ptrs[name], 4*f.width()*sub) }

// blocks writes a loop over blocks of 16 elements of the slices of the op. body is called once for each register of a
// block. If the op has a parameter l, its lanes are in registers during the loop, and body gets them through f.lane.
func (f *function) blocks(body func(sub int)) {
	count, lanes := f.pointer(), ptr(-1)
	f.ptrs = map[string]ptr{}
	first := true
	for _, p := range f.op.params {
		switch {
		case p.name == "l":
			lanes = f.pointer()
			f.arg(lanes, p)
		case p.typ[0] == '[':
			f.ptrs[p.name] = f.pointer()
			f.arg(f.ptrs[p.name], p)
			if first {
				f.length(count, p)
				first = false
			}
		}
	}
	f.shift(count, 4)
	f.jumpLess(count, 1, "done")
	var acc []reg
	if lanes >= 0 {
		acc = f.take(subs(f))
		for s, r := range acc {
			f.load(r, lanes, 4*f.width()*s)
		}
	}
	f.lane = func(s int) reg { return acc[s] }
	step := func() {
		for s := range subs(f) {
			body(s)
		}
	}
	f.hoist(func() reg { return f.take(1)[0] }, step)
	f.label("loop")
	step()
	for _, p := range f.op.params {
		if r, ok := f.ptrs[p.name]; ok {
			f.addImm(r, 16*size(p.typ))
		}
	}
	f.countDown(count, "loop")
	for s, r := range acc {
		f.store(r, lanes, 4*f.width()*s)
	}
	f.label("done")
}

// turns writes loops over k ≥ 0 units: n at a time, to reduce loop overhead, then one by one. k becomes 0.
func (f *function) turns(k ptr, n int, name string, body func(n int)) {
	several, rest, single, end := name+"several", name+"rest", name+"single", name+"end"
	f.addImm(k, -n)
	f.jumpLess(k, 0, rest)
	f.label(several)
	body(n)
	f.addImm(k, -n)
	f.jumpLeast(k, 0, several)
	f.label(rest)
	f.addImm(k, n)
	f.jumpLess(k, 1, end)
	f.label(single)
	body(1)
	f.countDown(k, single)
	f.label(end)
}

// tiles writes loops over rows ≥ 0: tile at a time, then one by one.
func (f *function) tiles(rows ptr, tile int, body func(n int)) {
	if tile > 1 {
		f.label("tiles")
		f.jumpLess(rows, tile, "rest")
		body(tile)
		f.addImm(rows, -tile)
		f.jump("tiles")
		f.label("rest")
	}
	f.jumpLess(rows, 1, "done")
	f.label("single")
	body(1)
	f.countDown(rows, "single")
	f.label("done")
}

func size(slice string) int {
	switch slice {
	case "[]int8":
		return 1
	case "[]byte": // of F16
		return 2
	}
	return 4
}
