//go:build vulkan

package vulkan

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/runtime/device"
)

// variants are the routes that tests go through: what the probe chooses, what it would choose on worse devices, and a
// device that flushes subnormals and divides wrongly.
func variants() map[string]settings {
	return map[string]settings{
		"probed":   {},
		"by bytes": {noDots: true},
		"guarded":  {routes: &routes{guard: guarded}},
		"integers": {routes: &routes{guard: integers}},
		"bad":      {routes: &routes{guard: guarded, fused: true, bad: true}},
	}
}

// opened opens the first device with some settings.
func opened(t *testing.T, s settings) *gpu {
	t.Helper()
	all, err := devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no device")
	}
	g, err := newDevice(all[0], s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// TestKernels compares every kernel, by every route, with its definition in plain Go: random shapes, with values
// around 1 and values whose products are subnormal.
func TestKernels(t *testing.T) {
	for name, s := range variants() {
		t.Run(name, func(t *testing.T) {
			g, steps := opened(t, s), 0
			rounds := 1 // a driver compiles each shape anew
			if long.All {
				rounds = 6
			}
			for seed, scale := range []float64{1, 1e-20, 3e-38} {
				r := &random{rand.New(rand.NewPCG(uint64(seed), 7)), scale}
				for _, c := range r.calls(rounds) {
					want, got := execute(t, plaindevice.New(plaindevice.Options{}), c), execute(t, g, c)
					for b := range want {
						if i := differs(got[b], want[b]); i >= 0 {
							t.Errorf("%s %+v, scale %g: buffer %d, word %d: %08x, want %08x", c.kernel, c.constants,
								r.scale, b,
								i, got[b][i], want[b][i])
							break
						}
					}
					steps++
				}
			}
			if steps < 27 {
				t.Errorf("%d steps", steps)
			}
		})
	}
}

// differs returns the first word that is another one, −1 if there is none. Not-a-numbers are alike.
func differs(got, want []uint32) int {
	for i := range want {
		if got[i] != want[i] && !(isNaN(got[i]) && isNaN(want[i])) {
			return i
		}
	}
	return -1
}

// stepCall is a step with the contents of its buffers.
type stepCall struct {
	kernel    device.Kernel
	constants []uint32
	buffers   [][]uint32
}

// execute runs a step on a device and returns what its buffers hold then.
func execute(t *testing.T, b device.Backend, c stepCall) [][]uint32 {
	t.Helper()
	step := device.Step{Kernel: c.kernel, Constants: c.constants}
	for _, words := range c.buffers {
		m, err := b.Alloc(4*len(words), device.Steps)
		if err != nil {
			t.Fatal(err)
		}
		r := device.Range{Memory: m, Bytes: 4 * len(words)}
		if err := b.Upload(r, bytesOf(words)); err != nil {
			t.Fatal(err)
		}
		step.Buffers = append(step.Buffers, r)
	}
	commands, err := b.Record([]device.Step{step})
	if err != nil {
		t.Fatal(err)
	}
	if err := commands.Run(5 * time.Minute); err != nil { // a driver compiles at the first submit
		t.Fatal(err)
	}
	commands.Free()
	var results [][]uint32
	for _, r := range step.Buffers {
		data := make([]byte, r.Bytes)
		if err := b.Download(data, r); err != nil {
			t.Fatal(err)
		}
		words := make([]uint32, len(data)/4)
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(data[4*i:])
		}
		results = append(results, words)
	}
	return results
}

func bytesOf(words []uint32) (data []byte) {
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

// random makes calls of kernels with random constants and contents.
type random struct {
	*rand.Rand
	scale float64
}

func (r *random) floats(n int) []uint32 {
	words := make([]uint32, max(1, n))
	for i := range words {
		words[i] = math.Float32bits(float32(r.NormFloat64() * r.scale))
	}
	return words
}

func (r *random) bits(n int) []uint32 {
	words := make([]uint32, max(1, n))
	for i := range words {
		words[i] = r.Uint32()
	}
	return words
}

// bytes are activations: −127 … 127.
func (r *random) bytes(n int) []uint32 {
	words := make([]uint32, n)
	for i := range words {
		for k := range 4 {
			words[i] |= uint32(uint8(int8(r.IntN(255)-127))) << (8 * k)
		}
	}
	return words
}

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

func (r *random) flag() uint32 { return r.Uint32N(2) }

func fresh(n uint32) []uint32 {
	flags := make([]uint32, n)
	for i := range flags {
		flags[i] = device.NoStep
	}
	return flags
}

func (r *random) calls(rounds int) (list []stepCall) {
	for range rounds {
		list = append(list, r.prepare(), r.codes(), r.codes(), r.matrix(), r.residual(), r.finish())
		list = append(list, r.attention()...)
	}
	return list
}

func (r *random) prepare() stepCall {
	in := pick(r, uint32(16), 33, 100, 256, 1500)
	op := device.Prepare{N: 1 + r.Uint32N(3), In: in, Group: pick(r, in, 32, 64), Norm: device.Norm(r.Uint32N(3)),
		Bias:     r.flag(),
		Quantize: 1, Gather: r.flag(), Step: 7, Eps: 1e-5, QWords: (in + 15) / 16 * 4, Params: [4]float32{1.7, 0.8,
			0.5, -0.1}}
	op.Gate = pick(r, device.GateNone, device.GateSiLU, device.GateReLU2, device.GateGELUTanh, device.GateXIELU,
		device.GateClamped, device.GateSiLU+device.GateSingle)
	op.Group = min(op.Group, in)
	op.Stride = 2*in + 5
	rows := []uint32{2, 0, 1}
	return stepCall{device.KernelPrepare, device.Words(op), [][]uint32{r.floats(int(3 * op.Stride)), r.floats(int(in)),
		r.floats(int(in)), r.floats(int(op.N * in)), r.bits(int(op.N * op.QWords)),
		r.floats(int(op.N * ((in + op.Group - 1) / op.Group))), fresh(3), rows}}
}

func (r *random) codes() stepCall {
	bits := pick(r, uint32(1), 2, 2, 4, 8)
	rows, k := 1+r.Uint32N(150), pick(r, uint32(30), 64, 200, 700)
	op := device.Codes{N: 1 + r.Uint32N(11), Rows: rows, K: k, QWords: (k + 15) / 16 * 4, LDY: rows + 3, At: 2,
		Lanes: pick(r, uint32(4), 8) * bits, Bits: bits, Mul: pick(r, int32(1), 2), Add: int32(r.IntN(5)) - 4,
		PerRow: r.flag(), Group: k, ActGroup: k, Bias: r.flag(), Accumulate: r.flag(),
		ResidualScale: pick(r, float32(0), 0.22)}
	if bits == 2 {
		op.Ternary = r.flag()
	}
	if r.IntN(2) == 0 {
		op.Grouped, op.Group = 1, min(k, pick(r, uint32(32), 64))
		op.PerRow = (k + op.Group - 1) / op.Group
	}
	if r.IntN(3) == 0 {
		op.ActGrouped, op.ActGroup = 1, min(k, pick(r, uint32(32), 128))
	}
	panel := op.Lanes * 8 / bits
	words := int((rows + panel - 1) / panel * ((k + 3) / 4) * op.Lanes)
	weights := r.bits(words)
	if op.Ternary != 0 { // digits 0, 1, 2
		for i := range weights {
			weights[i] &^= weights[i] >> 1 & 0x55555555
		}
	}
	q := r.bytes(int(op.N * op.QWords))
	for t := range op.N {
		for i := k; i < 4*op.QWords; i++ {
			q[t*op.QWords+i/4] &^= 0xff << (8 * (i % 4))
		}
	}
	return stepCall{device.KernelCodes, device.Words(op), [][]uint32{weights, r.floats(int(max(1, rows*op.PerRow))), q,
		r.floats(int(op.N * ((k + op.ActGroup - 1) / op.ActGroup))), r.floats(int(rows)), r.floats(int(op.N * op.LDY))}}
}

func (r *random) matrix() stepCall {
	rows, k := 1+r.Uint32N(40), pick(r, uint32(17), 64, 300)
	op := device.Floats{N: 1 + r.Uint32N(10), Rows: rows, K: k, LDY: rows + 1, At: 1,
		Type: device.FloatType(r.Uint32N(3)),
		Bias: r.flag(), Accumulate: r.flag(), ResidualScale: pick(r, float32(0), 0.22)}
	weights := r.floats(int(rows * k))
	if op.Type == device.F16 { // finite ones
		for i := range weights {
			weights[i] = r.Uint32() &^ 0x40004000
		}
	}
	return stepCall{device.KernelFloats, device.Words(op), [][]uint32{weights, r.floats(int(op.N * k)),
		r.floats(int(rows)),
		r.floats(int(op.N * op.LDY))}}
}

func (r *random) residual() stepCall {
	n, tokens := pick(r, uint32(16), 70, 1300), 1+r.Uint32N(3)
	op := device.Residual{N: tokens, Len: n, LDY: n + 4, At: 3, Norm: device.Norm(r.Uint32N(3)), Bias: r.flag(),
		Accumulate: r.flag(), Step: 3, Eps: 1e-6, Scale: pick(r, float32(0), 0.22)}
	return stepCall{device.KernelResidual, device.Words(op), [][]uint32{r.floats(int(tokens * op.LDY)),
		r.floats(int(n)),
		r.floats(int(n)), r.floats(int(tokens * n)), fresh(tokens)}}
}

func (r *random) finish() stepCall {
	op := device.Finish{N: 2, Vocab: 300, Step: 9, Divisor: pick(r, float32(0), 3), Scale: pick(r, float32(0), 0.3),
		Cap: pick(r, float32(0), 5)}
	y := r.floats(600)
	y[r.IntN(600)] = 0x7f800000
	return stepCall{device.KernelFinish, device.Words(op), [][]uint32{y, {1, 0}, fresh(2)}}
}

// attention makes a call of each kernel of attention, of the same shape.
func (r *random) attention() []stepCall {
	const pageRows, pages, n, span = 32, 8, 3, 256
	h := device.Heads{N: n, KVHeads: 1 + r.Uint32N(2), Dim: pick(r, uint32(8), 20, 64, 130), PageRows: pageRows,
		QNorm: device.Norm(r.Uint32N(3)), KNorm: device.Norm(r.Uint32N(3)), Own: r.flag(), RotateFirst: r.flag(),
		Pairs: r.flag(), Local: r.flag(), Step: 5, Clip: pick(r, float32(0), 0.7), Eps: 1e-5}
	h.Heads = h.KVHeads * (1 + r.Uint32N(3))
	h.Rot = pick(r, 0, h.Dim/4*2, h.Dim/2*2)
	h.LDY = (h.Heads+2*h.KVHeads)*h.Dim + 1
	var table []uint32 // of two sequences
	for _, page := range r.Perm(pages) {
		table = append(table, uint32(page))
	}
	var tokens []uint32
	for t := range uint32(n) {
		position := 42*t + r.Uint32N(42) // another row for each
		tokens = append(tokens, position, t%2*4, position-min(position, r.Uint32N(50)), math.Float32bits(pick(r,
			float32(0), 1.1)))
	}
	cache := int(pages * pageRows * h.KVHeads * h.Dim)
	q := int(n * h.Heads * h.Dim)
	s := device.Scores{N: n, Heads: h.Heads, KVHeads: h.KVHeads, Dim: h.Dim, PageRows: pageRows, Span: span,
		Local: h.Local,
		Scale: 0.3, Cap: pick(r, float32(0), 5)}
	a := device.Attend{N: n, Heads: h.Heads, KVHeads: h.KVHeads, Dim: h.Dim, PageRows: pageRows, Span: span,
		Local: h.Local,
		Sinks: r.flag()}
	z := r.floats(int(n * h.Heads * span))
	return []stepCall{
		{device.KernelHeads, device.Words(h), [][]uint32{r.floats(int(n * h.LDY)), tokens, r.floats(int(n * 2 * h.Rot)),
			r.floats(int(h.Dim * h.Heads)), r.floats(int(h.Dim * h.KVHeads)), table, r.floats(q), r.floats(cache),
			r.floats(cache), fresh(n)}},
		{device.KernelScores, device.Words(s), [][]uint32{r.floats(q), r.floats(cache), tokens, table, z}},
		{device.KernelAttend, device.Words(a), [][]uint32{z, r.floats(cache), tokens, table, r.floats(int(h.Heads)),
			r.floats(q)}},
	}
}
