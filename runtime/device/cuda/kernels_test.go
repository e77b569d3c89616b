//go:build vulkan && linux

package cuda

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/runtime/device"
)

// bench runs the same step on a GPU and on the device that is plain Go, and compares all that they leave in memory.
type bench struct {
	*testing.T
	*rand.Rand
	gpu, plain device.Backend
}

// testEach calls f for some number of random steps of a kernel, if there is a GPU.
func testEach(t *testing.T, n int, f func(b *bench)) {
	gpu, err := device.Open("cuda")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		b := &bench{t, rand.New(rand.NewPCG(uint64(i), 1)), gpu, plaindevice.New(plaindevice.Options{})}
		if f(b); t.Failed() {
			t.Logf("step %d", i)
			return
		}
	}
}

// one of some numbers.
func (b *bench) one(of ...uint32) uint32 { return of[b.IntN(len(of))] }

// flag is 0 or 1.
func (b *bench) flag() uint32 { return uint32(b.IntN(2)) }

// floats are words: normal ones, and a few that are zero, tiny or large.
func (b *bench) floats(n uint32) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		f := float32(b.NormFloat64())
		switch b.IntN(40) {
		case 0:
			f = 0
		case 1:
			f *= 1e-41
		case 2:
			f *= 30
		}
		w[i] = math.Float32bits(f)
	}
	return w
}

// words are random.
func (b *bench) words(n uint32) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = b.Uint32()
	}
	return w
}

func (b *bench) flags(n uint32) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = b.one(device.NoStep, 3, 1000)
	}
	return w
}

// run executes a step on the GPU and on the plain device, and compares the buffers; those of private are not compared.
func (b *bench) run(k device.Kernel, op any, constants []uint32, buffers [][]uint32, private ...int) {
	b.Helper()
	step := device.Step{Kernel: k, Constants: constants}
	want, got := b.leaves(b.plain, step, buffers), b.leaves(b.gpu, step, buffers)
	for _, i := range private {
		got[i] = want[i]
	}
	for j := range buffers {
		if i := differs(got[j], want[j]); i >= 0 {
			b.Errorf("%s %+v: word %d of buffer %d is %#x (%v), want %#x (%v)", k, op, i, j, got[j][i],
				math.Float32frombits(got[j][i]), want[j][i], math.Float32frombits(want[j][i]))
		}
	}
}

// differs finds the first difference; -1 is none.
func differs(got, want []uint32) int {
	for i := range want {
		if got[i] != want[i] && !(isNaN(got[i]) && isNaN(want[i])) {
			return i
		}
	}
	return -1
}

// leaves is what a step leaves in its buffers.
func (b *bench) leaves(d device.Backend, step device.Step, buffers [][]uint32) (left [][]uint32) {
	b.Helper()
	for _, w := range buffers {
		step.Buffers = append(step.Buffers, b.upload(d, w))
	}
	c, err := d.Record([]device.Step{step})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Free()
	if err := c.Run(10 * time.Second); err != nil {
		b.Fatalf("%s %v: %v", step.Kernel, step.Constants, err)
	}
	for j, w := range buffers {
		got := make([]uint32, len(w))
		if err := d.Download(asBytes(got), step.Buffers[j]); err != nil {
			b.Fatal(err)
		}
		left = append(left, got)
	}
	return left
}
func isNaN(w uint32) bool { return w&0x7fffffff > 0x7f800000 }

func (b *bench) upload(d device.Backend, w []uint32) device.Range {
	m, err := d.Alloc(max(4*len(w), 4), device.Steps)
	if err != nil {
		b.Fatal(err)
	}
	r := device.Range{Memory: m, Bytes: 4 * len(w)}
	if err := d.Upload(r, asBytes(w)); err != nil {
		b.Fatal(err)
	}
	return r
}

func asBytes(w []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

func TestPrepare(t *testing.T) {
	testEach(t, 300, func(b *bench) {
		op := device.Prepare{N: b.one(1, 2, 5), In: b.one(1, 15, 64, 100, 2560, 6912), Step: 7, Eps: 1e-5,
			Bias: b.flag(),
			Gate: device.Gate(b.IntN(6)), Norm: device.Norm(b.IntN(3)), Quantize: b.flag(), Gather: b.flag(),
			Params: [4]float32{0.7, 1.3, 0.5, -1e-6}}
		if op.Gate != device.GateNone && b.flag() == 1 {
			op.Gate += device.GateSingle
		}
		op.Stride = op.In * 2
		op.QWords = (op.In + 15) / 16 * 4
		if op.Group = op.In; b.flag() == 1 {
			op.Group = b.one(32, 128, 100)
		}
		rows := []uint32{3, 0, 2, 1, 4}
		groups := (op.In + op.Group - 1) / op.Group
		b.run(device.KernelPrepare, op, device.Words(op), [][]uint32{b.floats(5 * op.Stride), b.floats(op.In),
			b.floats(op.In), b.words(op.N * op.In), b.words(op.N * op.QWords), b.words(op.N * groups), b.flags(5),
			rows})
	})
}

// TestPrepareFlags: a value that is not finite is noted.
func TestPrepareFlags(t *testing.T) {
	testEach(t, 40, func(b *bench) {
		op := device.Prepare{N: 2, In: 300, Stride: 300, QWords: 76, Group: 300, Norm: device.Norm(b.IntN(2)),
			Quantize: 1,
			Step:     7, Eps: 1e-5}
		src := b.floats(600)
		src[b.IntN(600)] = b.one(0x7f800000, 0xff800000, 0x7fc00000, 0x7f000000)
		b.run(device.KernelPrepare, op, device.Words(op), [][]uint32{src, b.floats(300), b.floats(300), b.words(600),
			b.words(152), b.words(2), b.flags(2), b.words(2)}, 3, 4, 5)
	})
}

func TestCodes(t *testing.T) {
	testEach(t, 600, func(b *bench) {
		op := device.Codes{N: b.one(1, 2, 8, 9, 33, 100), Rows: b.one(1, 16, 63, 64, 65, 130, 300),
			K: b.one(1, 4, 31, 64, 100, 260, 520), Lanes: b.one(4, 8, 16, 16, 32, 64), Bits: b.one(1, 2, 2, 4, 8),
			At:   b.one(0, 3),
			Bias: b.flag(), Accumulate: b.flag(), PerRow: b.flag()}
		if op.Bits == 2 {
			op.Ternary = b.one(0, 1, 1)
		}
		op.Mul, op.Add = int32(b.IntN(3)), -int32(b.IntN(9))
		op.QWords, op.LDY = (op.K+15)/16*4, op.At+op.Rows+b.one(0, 2)
		if op.Accumulate == 1 && b.flag() == 1 {
			op.ResidualScale = 0.37
		}
		op.Group, op.ActGroup = op.K, op.K
		if b.IntN(3) == 0 {
			op.Group, op.Grouped = b.one(32, 128), 1
			op.PerRow = (op.K + op.Group - 1) / op.Group
		}
		if b.IntN(3) == 0 {
			op.ActGroup, op.ActGrouped = b.one(32, 64), 1
		}
		q := b.words(op.N * op.QWords)
		b.run(device.KernelCodes, op, device.Words(op), [][]uint32{b.digits(&op), b.floats(op.Rows*op.PerRow + 1),
			codesOf(&op, q),
			b.floats(op.N * ((op.K + op.ActGroup - 1) / op.ActGroup)), b.floats(op.Rows), b.floats(op.N * op.LDY)})
	})
}

// digits are words of a matrix; those of ternary codes are 0, 1 and 2.
func (b *bench) digits(op *device.Codes) []uint32 {
	panel := op.Lanes * 8 / op.Bits
	w := b.words((op.Rows + panel - 1) / panel * ((op.K + 3) / 4) * op.Lanes)
	for i := range w {
		if op.Ternary == 1 {
			w[i] &^= w[i] & 0x55555555 << 1
		}
	}
	return w
}

// codesOf makes codes −127 … 127 of bytes, and zeros beyond the columns.
func codesOf(op *device.Codes, q []uint32) []uint32 {
	bytes := asBytes(q)
	for i := range bytes {
		if bytes[i] == 128 {
			bytes[i] = 127
		}
		if uint32(i)%(4*op.QWords) >= op.K {
			bytes[i] = 0
		}
	}
	return q
}

func TestFloats(t *testing.T) {
	testEach(t, 200, func(b *bench) {
		op := device.Floats{N: b.one(1, 2, 5), Rows: b.one(1, 15, 16, 17, 100), K: b.one(1, 15, 64, 100, 515),
			At:   b.one(0, 3),
			Type: device.FloatType(b.IntN(3)), Bias: b.flag(), Accumulate: b.flag()}
		op.LDY = op.At + op.Rows + b.one(0, 2)
		if op.Accumulate == 1 && b.flag() == 1 {
			op.ResidualScale = 0.37
		}
		w := b.floats(op.Rows * op.K)
		if op.Type != device.F32 {
			w = b.words((op.Rows*op.K + 1) / 2)
			for i := range w {
				w[i] &= 0xbfffbfff // finite
			}
		}
		b.run(device.KernelFloats, op, device.Words(op), [][]uint32{w, b.floats(op.N * op.K), b.floats(op.Rows),
			b.floats(op.N * op.LDY)})
	})
}

// cache is what steps of attention share.
type cache struct {
	n, heads, kv, dim, pageRows, span uint32
	tokens, pages                     []uint32
	size                              uint32 // elements of the keys
}

func (b *bench) cache() cache {
	c := cache{n: b.one(1, 2, 5), kv: b.one(1, 2, 3), dim: b.one(4, 16, 64, 100, 128), pageRows: b.one(1, 8, 16)}
	c.heads = c.kv * b.one(1, 2, 4)
	const longest = 70
	perToken := longest/c.pageRows + 1
	for t := range c.n {
		position := uint32(b.IntN(longest))
		from := uint32(b.IntN(int(position) + 1))
		c.tokens = append(c.tokens, position, t*perToken, from, math.Float32bits(float32(b.one(0, 1, 3))/2))
	}
	for _, p := range b.Perm(int(c.n * perToken)) {
		c.pages = append(c.pages, uint32(p))
	}
	c.span, c.size = longest+b.one(0, 3), c.n*perToken*c.kv*c.pageRows*c.dim
	return c
}

func TestHeads(t *testing.T) {
	testEach(t, 300, func(b *bench) {
		c := b.cache()
		op := device.Heads{N: c.n, Heads: c.heads, KVHeads: c.kv, Dim: c.dim, Rot: c.dim, Local: b.flag(),
			Own:   b.flag(),
			QNorm: device.Norm(b.IntN(3)), KNorm: device.Norm(b.IntN(3)), RotateFirst: b.flag(), Pairs: b.flag(),
			PageRows: c.pageRows, Step: 5, Eps: 1e-6}
		if b.flag() == 1 {
			op.Rot = c.dim / 4 * 2
		}
		if b.IntN(4) == 0 {
			op.Rot = 0
		}
		if b.flag() == 1 {
			op.Clip = 0.8
		}
		op.LDY = (c.heads+2*c.kv)*c.dim + b.one(0, 3)
		b.run(device.KernelHeads, op, device.Words(op), [][]uint32{b.floats(c.n * op.LDY), c.tokens,
			b.floats(c.n*2*op.Rot + 1), b.floats(c.heads * c.dim), b.floats(c.kv * c.dim), c.pages,
			b.words(c.n * c.heads * c.dim),
			b.words(c.size), b.words(c.size), b.flags(c.n)})
	})
}

func TestScores(t *testing.T) {
	testEach(t, 200, func(b *bench) {
		c := b.cache()
		op := device.Scores{N: c.n, Heads: c.heads, KVHeads: c.kv, Dim: c.dim, PageRows: c.pageRows, Span: c.span,
			Local: b.flag(), Scale: 0.3, Cap: float32(b.one(0, 5))}
		b.run(device.KernelScores, op, device.Words(op), [][]uint32{b.floats(c.n * c.heads * c.dim), b.floats(c.size),
			c.tokens,
			c.pages, b.words(c.n * c.heads * c.span)})
	})
}

func TestAttend(t *testing.T) {
	testEach(t, 200, func(b *bench) {
		c := b.cache()
		op := device.Attend{N: c.n, Heads: c.heads, KVHeads: c.kv, Dim: c.dim, PageRows: c.pageRows, Span: c.span,
			Local: b.flag(), Sinks: b.flag()}
		b.run(device.KernelAttend, op, device.Words(op), [][]uint32{b.floats(c.n * c.heads * c.span), b.floats(c.size),
			c.tokens,
			c.pages, b.floats(c.heads), b.words(c.n * c.heads * c.dim)}, 0)
	})
}

func TestResidual(t *testing.T) {
	testEach(t, 100, func(b *bench) {
		op := device.Residual{N: b.one(1, 2, 5), Len: b.one(1, 15, 64, 100, 2560), At: b.one(0, 3),
			Norm: device.Norm(b.IntN(3)),
			Bias: b.flag(), Accumulate: b.flag(), Step: 9, Eps: 1e-5, Scale: float32(b.one(0, 3)) / 7}
		op.LDY = op.At + op.Len + b.one(0, 2)
		b.run(device.KernelResidual, op, device.Words(op), [][]uint32{b.floats(op.N * op.LDY), b.floats(op.Len),
			b.floats(op.Len),
			b.floats(op.N * op.Len), b.flags(op.N)})
	})
}

func TestFinish(t *testing.T) {
	testEach(t, 60, func(b *bench) {
		op := device.Finish{N: b.one(1, 3), Vocab: b.one(1, 255, 256, 1000), Step: 11, Divisor: float32(b.one(0, 7)),
			Scale: float32(b.one(0, 3)) / 7, Cap: float32(b.one(0, 30))}
		y := b.floats(op.N * op.Vocab)
		if b.flag() == 1 {
			y[b.IntN(len(y))] = b.one(0x7f800000, 0x7fc00000)
		}
		b.run(device.KernelFinish, op, device.Words(op), [][]uint32{y, {2, 0, 4}, b.flags(5)})
	})
}

// TestApart: products that are apart, which one launch computes, write what each would.
func TestApart(t *testing.T) {
	testEach(t, 60, func(b *bench) {
		op := device.Codes{N: b.one(1, 3, 30, 80), K: b.one(64, 100, 520), Lanes: 16, Bits: 2, Ternary: 1}
		op.QWords, op.Group, op.ActGroup, op.LDY = (op.K+15)/16*4, op.K, op.K, 1000
		q := codesOf(&op, b.words(op.N*op.QWords))
		d, y := b.floats(op.N), b.floats(op.N*op.LDY)
		var left [2][]uint32
		ops := make([]device.Codes, b.one(2, 3, 4))
		var w, scales [][]uint32
		for i := range ops {
			ops[i] = op
			ops[i].Rows, ops[i].At, ops[i].PerRow = b.one(1, 64, 65, 200), uint32(i)*200, b.flag()
			w, scales = append(w, b.digits(&ops[i])), append(scales, b.floats(200))
		}
		for i, dev := range []device.Backend{b.plain, b.gpu} {
			qr, dr, yr := b.upload(dev, q), b.upload(dev, d), b.upload(dev, y)
			var steps []device.Step
			for j := range ops {
				steps = append(steps, device.Step{Kernel: device.KernelCodes, Apart: j > 0,
					Constants: device.Words(ops[j]),
					Buffers:   []device.Range{b.upload(dev, w[j]), b.upload(dev, scales[j]), qr, dr, dr, yr}})
			}
			c, err := dev.Record(steps)
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Run(time.Second); err != nil {
				b.Fatal(err)
			}
			left[i] = make([]uint32, len(y))
			if err := dev.Download(asBytes(left[i]), yr); err != nil {
				b.Fatal(err)
			}
		}
		if differs(left[1], left[0]) >= 0 {
			b.Errorf("%d products of %+v differ", len(ops), op)
		}
	})
}
