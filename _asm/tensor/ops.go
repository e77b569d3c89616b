package main

import "math"

// ops are the functions of package tensor in assembly; block.go and scores.go there define what each computes.
var ops = []*op{
	newOp("sumSquares", "l *lanes, x []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "x", s)
			f.multiplyAdd(f.lane(s), 0, 0)
		})
	}),
	newOp("maxAbs", "l *bits, x []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "x", s)
			f.abs(0, 0)
			f.do("imax", f.lane(s), f.lane(s), 0)
		})
	}),
	newOp("normalize", "l *bits, y, x, w []float32, v float32", "", func(f *function) {
		v := f.scalar("v")
		f.blocks(func(s int) {
			f.in(0, "x", s)
			f.in(1, "w", s)
			f.do("mul", 0, 0, v)
			f.do("mul", 0, 0, 1)
			f.out("y", s, 0)
			f.abs(0, 0)
			f.do("imax", f.lane(s), f.lane(s), 0)
		})
	}),
	newOp("quantize", "q []int8, x []float32, s float32", "", func(f *function) {
		scale, r := f.scalar("s"), f.take(subs(f))
		f.blocks(func(s int) {
			f.in(r[s], "x", s)
			f.toCodes(r[s], scale)
			if s == len(r)-1 {
				f.store8(r, f.ptrs["q"])
			}
		})
	}),
	newOp("quantizePlanes", "high, low []int8, x []float32, s float32", "", func(f *function) {
		// q/255 is at least 1/510 from a tie, so that the product with 1/255 rounds to the nearest integer.
		scale, high, low := f.scalar("s"), f.take(subs(f)), f.take(subs(f))
		f.blocks(func(s int) {
			f.in(low[s], "x", s)
			f.do("mul", low[s], low[s], scale)
			f.toInt(low[s], low[s])
			f.doConst("imin", low[s], low[s], 127*256)
			f.doConst("imax", low[s], low[s], negative(127*256))
			f.toFloat(low[s], low[s])
			f.doConst("mul", high[s], low[s], bits(1.0/255))
			f.toInt(high[s], high[s])
			f.toFloat(0, high[s])
			f.doConst("mul", 0, 0, bits(255))
			f.do("sub", low[s], low[s], 0)
			f.toInt(low[s], low[s])
			if s == len(low)-1 {
				f.store8(high, f.ptrs["high"])
				f.store8(low, f.ptrs["low"])
			}
		})
	}),
	newOp("quantizeGroups", "q []int8, d, x []float32, blocks int", "", quantizeGroups),
	newOp("scaleRows", "y []float32, acc []int32, w []float32, d float32", "", func(f *function) {
		d := f.scalar("d")
		f.blocks(func(s int) {
			f.in(0, "acc", s)
			f.in(1, "w", s)
			f.toFloat(0, 0)
			f.do("mul", 0, 0, 1)
			f.do("mul", 0, 0, d)
			f.out("y", s, 0)
		})
	}),
	newOp("scaleAll", "y []float32, acc []int32, w, d float32", "", func(f *function) {
		w, d := f.scalar("w"), f.scalar("d")
		f.blocks(func(s int) {
			f.in(0, "acc", s)
			f.toFloat(0, 0)
			f.do("mul", 0, 0, w)
			f.do("mul", 0, 0, d)
			f.out("y", s, 0)
		})
	}),
	newOp("scaleAdd", "y []float32, acc []int32, w []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "acc", s)
			f.in(1, "w", s)
			f.in(2, "y", s)
			f.toFloat(0, 0)
			f.multiplyAdd(2, 0, 1)
			f.out("y", s, 2)
		})
	}),
	newOp("scaleAddAll", "y []float32, acc []int32, d float32", "", func(f *function) {
		d := f.scalar("d")
		f.blocks(func(s int) {
			f.in(0, "acc", s)
			f.in(1, "y", s)
			f.toFloat(0, 0)
			f.multiplyAdd(1, 0, d)
			f.out("y", s, 1)
		})
	}),
	newOp("scaleAddBoth", "y []float32, acc []int32, w []float32, d float32", "", func(f *function) {
		d := f.scalar("d")
		f.blocks(func(s int) {
			f.in(0, "acc", s)
			f.in(1, "w", s)
			f.in(2, "y", s)
			f.toFloat(0, 0)
			f.do("mul", 0, 0, d)
			f.multiplyAdd(2, 0, 1)
			f.out("y", s, 2)
		})
	}),
	newOp("add", "y, x []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "y", s)
			f.in(1, "x", s)
			f.do("add", 0, 0, 1)
			f.out("y", s, 0)
		})
	}),
	newOp("times", "y []float32, c float32", "", func(f *function) {
		c := f.scalar("c")
		f.blocks(func(s int) {
			f.in(0, "y", s)
			f.do("mul", 0, 0, c)
			f.out("y", s, 0)
		})
	}),
	newOp("divide", "y, x []float32, s float32", "", func(f *function) {
		d := f.scalar("s")
		f.blocks(func(s int) {
			f.in(0, "x", s)
			f.do("div", 0, 0, d)
			f.out("y", s, 0)
		})
	}),
	newOp("relu2", "y, gate, up []float32", "", gated(func(f *function) {
		f.positive(0, 1)
		f.do("mul", 0, 0, 0)
	})),
	newOp("silu", "y, gate, up []float32", "", gated(func(f *function) {
		f.negate(1, 0)
		f.exp(1, 2)
		f.doConst("add", 1, 1, bits(1))
		f.constant(2, bits(1))
		f.do("div", 1, 2, 1)
		f.do("mul", 0, 0, 1)
	})),
	newOp("geluTanh", "y, gate, up []float32", "", gated(func(f *function) {
		f.do("mul", 1, 0, 0)
		f.do("mul", 1, 1, 0)
		f.move(2, 0)
		f.multiplyAddConst(2, 1, bits(0.044715))
		f.doConst("mul", 1, 2, bits(0.797884561))
		f.tanh(1, 2)
		f.doConst("mul", 0, 0, bits(0.5))
		f.multiplyAdd(0, 0, 1)
	})),
	newOp("softCap", "y []float32, c float32", "", func(f *function) {
		c := f.scalar("c")
		f.blocks(func(s int) {
			f.in(1, "y", s)
			f.do("div", 1, 1, c)
			f.tanh(1, 2)
			f.do("mul", 1, c, 1)
			f.out("y", s, 1)
		})
	}),
	newOp("weigh", "l *[2]lanes, z []float32, c float32", "", weigh),
	newOp("expSum", "l *lanes, z []float32, m float32", "", func(f *function) {
		m := f.scalar("m")
		f.blocks(func(s int) {
			f.in(1, "z", s)
			f.do("sub", 1, 1, m)
			f.exp(1, 2)
			f.out("z", s, 1)
			f.do("add", f.lane(s), f.lane(s), 1)
		})
	}),
	newOp("rotate", "y, z, a, b, c, s []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "a", s)
			f.in(1, "b", s)
			f.in(2, "c", s)
			f.in(3, "s", s)
			f.do("mul", 4, 0, 2)
			f.multiplySub(4, 1, 3)
			f.out("y", s, 4)
			f.do("mul", 1, 1, 2)
			f.multiplyAdd(1, 0, 3)
			f.out("z", s, 1)
		})
	}),
	newOp("multiply", "y, x []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "y", s)
			f.in(1, "x", s)
			f.do("mul", 0, 0, 1)
			f.out("y", s, 0)
		})
	}),
	newOp("butterfly", "y, z []float32", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "y", s)
			f.in(1, "z", s)
			f.do("add", 2, 0, 1)
			f.out("y", s, 2)
			f.do("sub", 0, 0, 1)
			f.out("z", s, 0)
		})
	}),
	newWiden("F16", "[]byte"), newWiden("I8", "[]int8"),
	newOp("narrowF16", "x []float32, y []byte", "", func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "x", s)
			f.storeF16(0, f.ptrs["y"], bytesOf("F16")*f.width()*s)
		})
	}),
	newOp("unpackI4", "y []int8, x []byte, ahead int",
		"unpackI4Go(y, x)", unpackI4),
	newOp("prefetch", "b []byte", "", prefetchLines),
	newTranspose(), newScores(),
}

// prefetchLines prefetches every line of a slice.
func prefetchLines(f *function) {
	p, lines := f.pointer(), f.pointer()
	f.arg(p, f.op.param("b"))
	f.length(lines, f.op.param("b"))
	f.addImm(lines, 63)
	f.shift(lines, 6)
	f.turns(lines, 4, "lines", func(n int) {
		f.prefetch(p, 0, 64*n)
		f.addImm(p, 64*n)
	})
}

// newWiden widens the elements of a KV cache to floats.
func newWiden(typ, slice string) *op {
	return newOp("widen"+typ, "y []float32, x "+slice, "", func(f *function) {
		f.blocks(func(s int) {
			f.loadWide(0, typ, f.ptrs["x"], bytesOf(typ)*f.width()*s)
			f.out("y", s, 0)
		})
	})
}

// unpackI4 looks up the values of blocks of codes.
func unpackI4(f *function) {
	y, x, next, blocks := f.pointer(), f.pointer(), f.pointer(), f.pointer()
	f.arg(y, f.op.param("y"))
	f.arg(x, f.op.param("x"))
	f.arg(next, f.op.param("ahead"))
	f.add(next, x)
	f.length(blocks, f.op.param("y"))
	f.shift(blocks, log2(i4Block))
	f.prepareI4()
	f.turns(blocks, 4, "blocks", func(n int) {
		f.prefetch(next, 0, i4Block/2*n)
		for i := range n {
			f.valuesI4(y, x, i)
		}
		f.addImm(next, i4Block/2*n)
		f.addImm(x, i4Block/2*n)
		f.addImm(y, i4Block*n)
	})
}

// weigh reads the scores twice, the second time from a cache. The largest one is found in several registers, each for
// every fourth block: a maximum has a latency, and its order does not matter.
func weigh(f *function) {
	l, z, count := f.pointer(), f.pointer(), f.pointer()
	begin := func() {
		f.arg(z, f.op.param("z"))
		f.length(count, f.op.param("z"))
		f.shift(count, 4)
	}
	f.arg(l, f.op.param("l"))
	begin()
	c, step := f.scalar("c"), 4*f.width()
	tops := f.take(4) // whole blocks: subs is 1, 2 or 4
	for i, r := range tops {
		f.load(r, l, step*(i%subs(f)))
	}
	f.turns(count, 4, "blocks", func(n int) {
		for i := range n * subs(f) {
			r := tops[i%len(tops)]
			f.load(0, z, step*i)
			f.do("mul", 0, 0, c)
			f.do("max", r, r, 0)
		}
		f.addImm(z, 64*n)
	})
	most := []reg{0, 1, 2, 3}[:subs(f)]
	for i, r := range tops {
		if m := most[i%subs(f)]; i < subs(f) {
			f.move(m, r)
		} else {
			f.do("max", m, m, r)
		}
	}
	f.foldLargest("max", most, 4)
	m, sums := most[0], f.take(subs(f))
	for s, r := range sums {
		f.store(m, l, step*s)
		f.load(r, l, 64+step*s)
	}
	begin()
	f.jumpLess(count, 1, "done")
	block := func() {
		for s, r := range sums {
			f.load(1, z, step*s)
			f.do("mul", 1, 1, c)
			f.do("sub", 1, 1, m)
			f.exp(1, 2)
			f.store(1, z, step*s)
			f.do("add", r, r, 1)
		}
	}
	f.hoist(func() reg { return f.take(1)[0] }, block)
	f.label("weights")
	block()
	f.addImm(z, 64)
	f.countDown(count, "weights")
	for s, r := range sums {
		f.store(r, l, 64+step*s)
	}
	f.label("done")
}

// quantizeGroups reads each group twice, the second time from the first-level cache. Groups do not depend on each
// other, so that the latencies of one (its largest magnitude, two quotients) pass while others are computed.
func quantizeGroups(f *function) {
	q, d, x, groups, blocks := f.pointer(), f.pointer(), f.pointer(), f.pointer(), f.pointer()
	ahead, left := f.pointer(), f.pointer()
	f.arg(q, f.op.param("q"))
	f.arg(d, f.op.param("d"))
	f.arg(x, f.op.param("x"))
	f.length(groups, f.op.param("d"))
	f.arg(blocks, f.op.param("blocks"))
	f.jumpLess(groups, 1, "done")
	group := func() { f.quantizeGroup(q, d, x, ahead, blocks, left) }
	f.hoist(func() reg { return f.take(1)[0] }, group)
	f.label("group")
	group()
	f.addImm(d, 4)
	f.countDown(groups, "group")
	f.label("done")
}

// quantizeGroup stores the codes of the group at x, which moves behind it with q, and its scale.
func (f *function) quantizeGroup(q, d, x, ahead, blocks, left ptr) {
	n, step := subs(f), 4*f.width()
	top, r := make([]reg, n), make([]reg, n)
	for s := range n {
		top[s], r[s] = reg(s), reg(n+s)
		f.zero(top[s])
	}
	scale, tmp := reg(2*n), reg(2*n+1)
	f.copy(ahead, x)
	f.copy(left, blocks)
	f.label("largest")
	for s := range n {
		f.load(r[s], ahead, step*s)
		f.abs(r[s], r[s])
		f.do("imax", top[s], top[s], r[s])
	}
	f.addImm(ahead, 64)
	f.countDown(left, "largest")
	f.foldLargest("imax", top, tmp)
	f.doConst("imax", top[0], top[0], bits(1e-5))
	f.constant(tmp, bits(127))
	f.divideLane(scale, top[0], tmp)
	f.storeLane(scale, d)
	f.divideLane(scale, tmp, top[0])
	f.copy(left, blocks)
	f.label("codes")
	for s := range n {
		f.load(r[s], x, step*s)
		f.toCodes(r[s], scale)
	}
	f.store8(r, q)
	f.addImm(x, 64)
	f.addImm(q, 16)
	f.countDown(left, "codes")
}

// toCodes replaces floats by their products with the scale, as integers from −127 to 127.
func (f *function) toCodes(x, scale reg) {
	f.do("mul", x, x, scale)
	f.toInt(x, x)
	f.doConst("imin", x, x, 127)
	f.doConst("imax", x, x, negative(127))
}

// gated loads the gate into register 0, applies act to it with registers from 1 on, and multiplies by up.
func gated(act func(f *function)) func(f *function) {
	return func(f *function) {
		f.blocks(func(s int) {
			f.in(0, "gate", s)
			act(f)
			f.in(1, "up", s)
			f.do("mul", 0, 0, 1)
			f.out("y", s, 0)
		})
	}
}

// exp replaces x by e^x (N9). It needs five registers from t on.
func (f *function) exp(x, t reg) {
	n, p, q, orig, sum := t, t+1, t+2, t+3, t+4
	f.move(orig, x)
	f.atMost(x, bits(88), n)
	f.constant(sum, bits(12582912))
	f.multiplyAddConst(sum, x, bits(1.44269504))
	f.doConst("sub", n, sum, bits(12582912))
	f.multiplyAddConst(x, n, bits(-0.693359375))
	f.multiplyAddConst(x, n, bits(2.12194440e-4)) // the remainder
	f.constant(p, bits(1.9875691500e-4))
	for _, c := range []float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1, 1, 1} {
		p, q = f.horner(p, x, bits(c), q)
	}
	f.pow2(sum)
	f.mulUnlessLess(x, p, sum, orig, bits(-87), n)
}

// tanh replaces x by N10's tanh. It needs five registers from t on.
func (f *function) tanh(x, t reg) {
	f.do("add", x, x, x)
	f.exp(x, t)
	f.doConst("add", x, x, bits(1))
	f.constant(t, bits(2))
	f.do("div", x, t, x)
	f.constant(t, bits(1))
	f.do("sub", x, t, x)
}

func bits(x float32) uint32   { return math.Float32bits(x) }
func negative(n int32) uint32 { return uint32(-n) }
