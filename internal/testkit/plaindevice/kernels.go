package plaindevice

import (
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/device"
)

func prepare(op device.Prepare, b buffers) {
	in, groups := int(op.In), int((op.In+op.Group-1)/op.Group)
	for t := range int(op.N) {
		row := t
		if op.Gather != 0 {
			row = int(b.u32(7)[t])
		}
		src, x := b.f32(0)[row*int(op.Stride):], b.f32(3)[t*in:][:in]
		for i := range x {
			x[i] = gated(op, src, i)
		}
		note := func(ok bool) { mark(b.u32(6), row, op.Step, ok) }
		note(normalize(op.Norm, x, b.f32(1), bias(b, 2, op.Bias), op.Eps))
		if op.Quantize == 0 {
			continue
		}
		q := b.i8(4)[t*int(op.QWords)*4:][:op.QWords*4]
		clear(q)
		for g := range groups {
			lo, hi := g*int(op.Group), min((g+1)*int(op.Group), in)
			d, ok := quantize(q[lo:hi], x[lo:hi])
			b.f32(5)[t*groups+g] = d
			note(ok)
		}
	}
}

// gated is element i of the vector that a gate makes of a row.
func gated(op device.Prepare, src []float32, i int) float32 {
	n := int(op.In)
	gate, up := src[i], float32(1)
	switch {
	case op.Gate == device.GateNone:
		return gate
	case op.Gate >= device.GateSingle:
	default:
		up = src[n+i]
	}
	p := op.Params
	switch op.Gate % device.GateSingle {
	case device.GateSiLU:
		return tensor.Silu(gate) * up
	case device.GateReLU2:
		return tensor.Relu2(gate) * up
	case device.GateGELUTanh:
		return tensor.GeluTanh(gate) * up
	case device.GateXIELU:
		curve := float32(p[1] * (tensor.Exp(min(gate, p[3])) - 1 - gate))
		if gate > 0 {
			curve = float32(p[0]*gate) * gate
		}
		return float32(curve+float32(p[2]*gate)) * up
	default: // device.GateClamped
		g := min(gate, p[1])
		u := min(max(up, -p[1]), p[1]) + 1
		return float32(tensor.Silu(float32(p[0]*g))*u) / p[0]
	}
}

func bias(b buffers, i int, has uint32) []float32 {
	if has == 0 {
		return nil
	}
	return b.f32(i)
}

// mark notes the first step that found a value of a token not finite.
func mark(flags []uint32, t int, step uint32, ok bool) {
	if !ok {
		flags[t] = min(flags[t], step)
	}
}

// lanes is N5 and N6.
func lanes(n int, step func(i int, lane float32) float32) float32 {
	var l [16]float32
	for i := range n {
		l[i%16] = step(i, l[i%16])
	}
	for s := 8; s > 0; s /= 2 {
		for j := range s {
			l[j] += l[j+s]
		}
	}
	return l[0]
}

func dot(x, y []float32) float32 {
	return lanes(len(x), func(i int, l float32) float32 { return fma.Float32(x[i], y[i], l) })
}

// normalize is N13 and N40 in place; it reports whether the mean square is finite.
func normalize(kind device.Norm, x, w, bias []float32, eps float32) bool {
	if kind == device.NormNone {
		return true
	}
	n := float32(len(x))
	if kind == device.NormLayer {
		mean := lanes(len(x), func(i int, l float32) float32 { return l + x[i] }) / n
		for i := range x {
			x[i] -= mean
		}
	}
	square := dot(x, x) / n
	v := 1 / float32(math.Sqrt(float64(square+eps)))
	for i := range x {
		x[i] = float32(x[i]*v) * w[i]
		if bias != nil {
			x[i] += bias[i]
		}
	}
	return finite(square)
}

func finite(x float32) bool { return math.Float32bits(x)&0x7f800000 != 0x7f800000 }

// quantize is N14.
func quantize(q []int8, x []float32) (d float32, ok bool) {
	var most uint32
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	a := math.Float32frombits(most)
	if !finite(a) {
		return 0, false
	}
	b := max(a, 1e-5)
	s := 127 / b
	for i, v := range x {
		q[i] = int8(min(max(math.RoundToEven(float64(float32(v*s))), -127), 127))
	}
	return b / 127, true
}

// store finishes an output of a product.
func store(y *float32, v float32, op *device.Floats, bias []float32, row int) {
	if op.Bias != 0 {
		v += bias[row]
	}
	if op.Accumulate != 0 {
		if op.ResidualScale != 0 {
			v = float32(v * op.ResidualScale)
		}
		v = *y + v
	}
	*y = v
}

// offsetCodes is Codes too, without the buffers from 6 on.
type offsetCodes struct{ device.OffsetCodes }

// blocks is the number of blocks of N15.
func (op *offsetCodes) blocks() int {
	block := min(op.Group, op.ActGroup)
	return int((op.K + block - 1) / block)
}

// zero is the product of a zero point and the sum of a block.
func (op *offsetCodes) zero(b buffers, unit, block int) int32 {
	switch {
	case op.Zeros != 0:
		return int32(b.i8(6)[unit]) * b.i32(7)[block]
	case op.Zero != 0:
		return op.Zero * b.i32(7)[block]
	}
	return 0
}

func codes(of device.OffsetCodes, b buffers) {
	op := offsetCodes{of}
	end := &device.Floats{Bias: op.Bias, Accumulate: op.Accumulate, ResidualScale: op.ResidualScale}
	groups, w := int((op.K+op.ActGroup-1)/op.ActGroup), make([]int8, op.K)
	for m := range int(op.Rows) {
		for k := range w {
			w[k] = code(&op.Codes, b.u32(0), m, k)
		}
		scales := b.f32(1)[m*int(op.PerRow):]
		for t := range int(op.N) {
			zero := func(unit, block int) int32 { return op.zero(b, unit+m*int(op.PerRow), block+t*op.blocks()) }
			v := product(&op.Codes, w, zero, scales, b.i8(2)[t*int(op.QWords)*4:], b.f32(3)[t*groups:])
			if op.Terms != 0 {
				v += b.f32(8)[t*int(op.LDY)+int(op.At)+m]
			}
			store(&b.f32(5)[t*int(op.LDY)+int(op.At)+m], v, end, b.f32(4), m)
		}
	}
}

// product is N15 of a row, less its zero points, with its scales and those of the activations.
func product(op *device.Codes, w []int8, zero func(unit, block int) int32, scales []float32, q []int8,
	d []float32) (y float32) {
	k, block := len(w), int(min(op.Group, op.ActGroup))
	for lo := 0; lo < k; lo += block {
		acc := int32(0)
		for i, c := range w[lo:min(lo+block, k)] {
			acc += int32(c) * int32(q[lo+i])
		}
		acc -= zero(lo/int(op.Group), lo/block)
		a, s, da := float32(acc), scales[lo/int(op.Group)], d[lo/int(op.ActGroup)]
		switch {
		case op.Grouped != 0 && op.ActGrouped != 0:
			y = fma.Float32(float32(a*da), s, y)
		case op.Grouped != 0:
			y = fma.Float32(a, s, y)
		case op.ActGrouped != 0:
			y = fma.Float32(a, da, y)
		default:
			y = float32(a*s) * da
		}
	}
	switch {
	case op.Grouped != 0 && op.ActGrouped == 0:
		y *= d[0]
	case op.Grouped == 0 && op.ActGrouped != 0:
		y *= scales[0]
	}
	return y
}

// code is a weight.
func code(op *device.Codes, w []uint32, m, k int) int8 {
	lanes, bits := int(op.Lanes), int(op.Bits)
	rows := lanes * 8 / bits
	word := w[(m/rows*((int(op.K)+3)/4)+k/4)*lanes+m%rows%lanes]
	v := int32(word >> (8*(k%4) + bits*(m%rows/lanes)) & (1<<bits - 1))
	switch {
	case op.Ternary != 0:
		return [...]int8{0, 1, -1}[v]
	case bits == 8:
		return int8(v)
	}
	return int8(op.Mul*v + op.Add)
}

func floats(op device.Floats, b buffers) {
	k, w := int(op.K), make([]float32, op.K)
	for m := range int(op.Rows) {
		for i := range w {
			w[i] = stored(op.Type, b.u32(0), m*k+i)
		}
		for t := range int(op.N) {
			store(&b.f32(3)[t*int(op.LDY)+int(op.At)+m], dot(w, b.f32(1)[t*k:][:k]), &op, b.f32(2), m)
		}
	}
}

// stored widens a stored float.
func stored(typ device.FloatType, w []uint32, i int) float32 {
	switch typ {
	case device.F32:
		return math.Float32frombits(w[i])
	case device.BF16:
		return math.Float32frombits(w[i/2] >> (16 * (i % 2)) << 16)
	}
	return float16.Widen(uint16(w[i/2] >> (16 * (i % 2))))
}

func reorder(op device.Reorder, b buffers) {
	for t := range int(op.N) {
		q, to := b.i8(0)[t*int(op.QWords)*4:], b.i8(2)[t*int(op.QWords)*4:][:op.QWords*4]
		clear(to)
		for k, from := range b.u32(1)[:op.K] {
			to[k] = q[from]
		}
	}
}

// sums is S and s of N39.
func sums(op device.Sums, b buffers) {
	block := int(min(op.Group, op.ActGroup))
	blocks, groups := (int(op.K)+block-1)/block, int((op.K+op.ActGroup-1)/op.ActGroup)
	for t := range int(op.N) {
		s := b.f32(3)[t*int(op.Width):][:op.Width]
		clear(s)
		for i := range blocks {
			lo, sum := i*block, int32(0)
			for _, c := range b.i8(0)[t*int(op.QWords)*4:][lo:min(lo+block, int(op.K))] {
				sum += int32(c)
			}
			b.i32(2)[t*blocks+i] = sum
			if op.Width > 0 {
				s[lo/int(op.Group)] += float32(float32(sum) * b.f32(1)[t*groups+lo/int(op.ActGroup)])
			}
		}
	}
}
