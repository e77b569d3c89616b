//go:build vulkan

package vulkan

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/runtime/device"
)

// variant is a way to compute. A driver compiles each kernel anew for it: where nothing but products of codes differs,
// only these are computed, and each has some formats of the KV cache. Long tests have all.
type variant struct {
	settings
	name   string
	only   []device.Kernel // nil = all
	caches []device.CacheType
}

// compiledShapes are what shaders of products are compiled with: a variant takes one in each round, and all variants
// together take all. Codes of each kind are in two Codes steps, of up to two tokens and of more, and in an OffsetCodes
// step; floats of each type are in a Floats step.
var compiledShapes = [...]struct {
	codes  [3]compiledCodes // of two Codes steps and an OffsetCodes step
	floats compiledFloats
}{
	{[3]compiledCodes{{bits: 8, lanes: 32, tokens: 1}, {bits: 4, lanes: 32, tokens: 11},
		{bits: 4, lanes: 16, tokens: 1}}, compiledFloats{device.F32, 1}},
	{[3]compiledCodes{{bits: 4, lanes: 32, tokens: 2}, {bits: 8, lanes: 64, tokens: 3},
		{bits: 8, lanes: 32, tokens: 11}}, compiledFloats{device.F16, 2}},
	{[3]compiledCodes{{bits: 2, lanes: 16, tokens: 1, ternary: 1}, {bits: 1, lanes: 8, tokens: 11},
		{bits: 2, lanes: 16, tokens: 3}}, compiledFloats{device.BF16, 3}},
	{[3]compiledCodes{{bits: 2, lanes: 8, tokens: 2}, {bits: 2, lanes: 16, tokens: 3, ternary: 1},
		{bits: 1, lanes: 4, tokens: 2}}, compiledFloats{device.F16, 1}},
	{[3]compiledCodes{{bits: 1, lanes: 4, tokens: 1}, {bits: 2, lanes: 16, tokens: 11},
		{bits: 2, lanes: 8, tokens: 2, ternary: 1}}, compiledFloats{device.F32, 11}},
}

type compiledCodes struct{ bits, lanes, tokens, ternary uint32 }

type compiledFloats struct {
	device.FloatType
	tokens uint32
}

// variants are the routes that tests go through: what the probe chooses, what it would choose on worse devices, and a
// device that flushes subnormals and divides wrongly.
func variants() []variant {
	const f32, f16, i8, i4 = device.CacheF32, device.CacheF16, device.CacheI8, device.CacheI4
	return []variant{
		{name: "probed", caches: []device.CacheType{f32, f16, i8, i4}},
		{name: "by bytes", settings: settings{noDots: true},
			only: []device.Kernel{device.KernelCodes, device.KernelOffsetCodes}},
		{name: "guarded", settings: settings{routes: &routes{guard: guarded}}, caches: []device.CacheType{f32, i4}},
		{name: "integers", settings: settings{routes: &routes{guard: integers}}, caches: []device.CacheType{f32, i8}},
		{name: "bad", settings: settings{routes: &routes{guard: guarded, fused: true, bad: true}},
			caches: []device.CacheType{f32, f16}},
	}
}

// tries reports whether a variant computes a kernel.
func (v *variant) tries(k device.Kernel) bool {
	_, cache := k.Of()
	ofCache := cache == device.CacheF32 || long.All || slices.Contains(v.caches, cache)
	return ofCache && (v.only == nil || slices.Contains(v.only, k))
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
// around 1 and values whose products are subnormal. What is compiled into a shader is the same for all of these values,
// and other for each route and round.
func TestKernels(t *testing.T) {
	for i, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			g, steps := opened(t, v.settings), 0
			rounds := 1
			if long.All {
				rounds = 2
			}
			for seed, scale := range []float64{1, 1e-20, 3e-38} {
				r := &random{rand.New(rand.NewPCG(uint64(seed), 7)), i, scale}
				for _, c := range r.calls(rounds) {
					if !v.tries(c.kernel) {
						continue
					}
					want, got := execute(t, plaindevice.New(plaindevice.Options{}), c), execute(t, g, c)
					c.forget(want, got)
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
			if steps < 9 || v.only == nil && steps < 36 {
				t.Errorf("%d steps", steps)
			}
		})
	}
}

// forget makes equal what is not defined of what a Heads step stores: of tokens whose flag is set, with codes, all, and
// of not-a-numbers of 16 bits which ones they are.
func (c *stepCall) forget(want, got [][]uint32) {
	kernel, cache := c.kernel.Of()
	if kernel != device.KernelHeads || cache < device.CacheF16 {
		return
	}
	if cache == device.CacheF16 {
		for _, b := range []int{7, 8} {
			for i, w := range want[b] {
				got[b][i] = forgetHalves(w, got[b][i])
			}
		}
		return
	}
	op := device.OperationOf[device.Heads](c.constants)
	tokens, pages, flags := c.buffers[1], c.buffers[5], want[9]
	queries, row := op.Heads*uint32(cache.QueryWords(int(op.Dim))), uint32(cache.RowWords(int(op.Dim)))
	for t := range op.N {
		if flags[t] == device.NoStep {
			continue
		}
		copy(got[6][t*queries:][:queries], want[6][t*queries:])
		position := tokens[4*t]
		page := pages[tokens[4*t+1]+position/op.PageRows]
		for head := range op.KVHeads {
			at := ((page*op.KVHeads+head)*op.PageRows + position%op.PageRows) * row
			copy(got[7][at:][:row], want[7][at:])
			copy(got[8][at:][:row], want[8][at:])
		}
	}
}

// forgetHalves returns got with those of its two halves that are not-a-numbers as in want, if they are so there too.
func forgetHalves(want, got uint32) uint32 {
	for _, half := range []uint32{0xffff, 0xffff << 16} {
		const infinite = 0x7c007c00
		if want&half&0x7fff7fff > infinite&half && got&half&0x7fff7fff > infinite&half {
			got = got&^half | want&half
		}
	}
	return got
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
	at    int // in compiledShapes
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

func pick[T any](r interface{ IntN(int) int }, from ...T) T { return from[r.IntN(len(from))] }

func (r *random) flag() uint32 { return r.Uint32N(2) }

func fresh(n uint32) []uint32 {
	flags := make([]uint32, n)
	for i := range flags {
		flags[i] = device.NoStep
	}
	return flags
}

func (r *random) calls(rounds int) (list []stepCall) {
	for round := range rounds {
		of := &compiledShapes[(r.at+round)%len(compiledShapes)]
		list = append(list, r.prepare(), r.codes(of.codes[0]), r.codes(of.codes[1]), r.matrix(of.floats), r.residual(),
			r.finish(), r.offsetCodes(of.codes[2]), r.reorder(), r.sums(), r.top())
		for c := device.CacheF32; c <= device.CacheI4; c++ {
			list = append(list, r.attention(c)...)
		}
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

func (r *random) codes(of compiledCodes) stepCall {
	rows, k := 1+r.Uint32N(150), pick(r, uint32(30), 64, 200, 700)
	op := device.Codes{N: of.tokens, Rows: rows, K: k, QWords: (k + 15) / 16 * 4, LDY: rows + 3, At: 2,
		Lanes: of.lanes, Bits: of.bits, Ternary: of.ternary, Mul: pick(r, int32(1), 2), Add: int32(r.IntN(5)) - 4,
		PerRow: r.flag(), Group: k, ActGroup: k, Bias: r.flag(), Accumulate: r.flag(),
		ResidualScale: pick(r, float32(0), 0.22)}
	if r.IntN(2) == 0 {
		op.Grouped, op.Group = 1, min(k, pick(r, uint32(32), 64))
		op.PerRow = (k + op.Group - 1) / op.Group
	}
	if r.IntN(3) == 0 {
		op.ActGrouped, op.ActGroup = 1, min(k, pick(r, uint32(32), 128))
	}
	panel := op.Lanes * 8 / op.Bits
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

// offsetCodes is codes with zero points, or one for all, and perhaps terms.
func (r *random) offsetCodes(of compiledCodes) stepCall {
	c := r.codes(of)
	op := device.OffsetCodes{Codes: device.OperationOf[device.Codes](c.constants), Zeros: r.flag(),
		Zero: pick(r, int32(-8), -128), Terms: r.flag()}
	blocks := (op.K + min(op.Group, op.ActGroup) - 1) / min(op.Group, op.ActGroup)
	sums := r.bits(int(op.N * blocks))
	for i := range sums {
		sums[i] = uint32(int32(sums[i]) >> 16)
	}
	zeros := r.bits(int(max(1, op.Rows*op.PerRow)+3) / 4)
	return stepCall{device.KernelOffsetCodes, device.Words(op), append(c.buffers, zeros, sums,
		r.floats(int(op.N*op.LDY)))}
}

func (r *random) reorder() stepCall {
	k := pick(r, uint32(5), 64, 1500)
	op := device.Reorder{N: 1 + r.Uint32N(3), K: k, QWords: (k + 15) / 16 * 4}
	var order []uint32
	for _, i := range r.Perm(int(k)) {
		order = append(order, uint32(i))
	}
	return stepCall{device.KernelReorder, device.Words(op), [][]uint32{r.bytes(int(op.N * op.QWords)), order,
		r.bits(int(op.N * op.QWords))}}
}

func (r *random) sums() stepCall {
	k := pick(r, uint32(33), 100, 256, 1500)
	op := device.Sums{N: 1 + r.Uint32N(3), K: k, QWords: (k + 15) / 16 * 4, Group: pick(r, uint32(16), 32, k),
		ActGroup: pick(r, uint32(16), 64, k)}
	op.Width = pick(r, 0, (k+op.Group-1)/op.Group+15)
	q := r.bytes(int(op.N * op.QWords))
	for t := range op.N {
		for i := k; i < 4*op.QWords; i++ {
			q[t*op.QWords+i/4] &^= 0xff << (8 * (i % 4))
		}
	}
	blocks, scales := (k+min(op.Group, op.ActGroup)-1)/min(op.Group, op.ActGroup), (k+op.ActGroup-1)/op.ActGroup
	return stepCall{device.KernelSums, device.Words(op), [][]uint32{q, r.floats(int(op.N * scales)),
		r.bits(int(op.N * blocks)), r.floats(int(op.N * op.Width))}}
}

func (r *random) matrix(of compiledFloats) stepCall {
	rows, k := 1+r.Uint32N(40), pick(r, uint32(17), 64, 300)
	op := device.Floats{N: of.tokens, Rows: rows, K: k, LDY: rows + 1, At: 1, Type: of.FloatType,
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

// top has values of few kinds, among which many are equal, and values that are not finite.
func (r *random) top() stepCall {
	op := device.Top{N: 1 + r.Uint32N(3), Len: pick(r, uint32(1), 300, device.TopPart, 2*device.TopPart+77),
		Most: 1 + r.Uint32N(device.TopMost), Pairs: r.flag()}
	z := r.floats(int(op.N * op.Len))
	for range len(z) / 2 {
		z[r.IntN(len(z))] = pick(r, uint32(0), 1<<31, 1, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000)
	}
	in := z
	if op.Pairs != 0 {
		in = nil
		for _, v := range z {
			in = append(in, v, r.Uint32())
		}
	}
	parts := (op.Len + device.TopPart - 1) / device.TopPart
	return stepCall{device.KernelTop, device.Words(op), [][]uint32{in, r.bits(int(2 * op.N * parts * op.Most))}}
}

// rows makes rows of a KV cache: finite floats, or codes with a scale.
func (r *random) rows(c device.CacheType, n, dim int) []uint32 {
	switch c {
	case device.CacheF32:
		return r.floats(n * dim)
	case device.CacheF16:
		words := r.bits(n * c.RowWords(dim))
		for i := range words {
			words[i] &^= 0x40004000
		}
		return words
	}
	var words []uint32
	for range n {
		words = append(append(words, r.bits(c.RowWords(dim)-1)...), r.floats(1)...)
	}
	return words
}

// queries makes queries.
func (r *random) queries(c device.CacheType, n, dim int) []uint32 {
	if c < device.CacheI8 {
		return r.floats(n * dim)
	}
	words := r.rows(device.CacheI8, n, dim)
	for i := range n { // codes beyond the last element are 0
		for k := dim; k%4 != 0; k++ {
			words[i*device.CacheI8.RowWords(dim)+k/4] &^= 0xff << (8 * (k % 4))
		}
	}
	return words
}

// attention makes a call of each kernel of attention, of the same shape.
func (r *random) attention(c device.CacheType) []stepCall {
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
	cache := func() []uint32 { return r.rows(c, int(pages*pageRows*h.KVHeads), int(h.Dim)) }
	queries := func() []uint32 { return r.queries(c, int(n*h.Heads), int(h.Dim)) }
	y := r.floats(int(n * h.LDY))
	switch at := r.Uint32N(n)*h.LDY + r.Uint32N(h.LDY-1); {
	case c >= device.CacheI8: // one token is flagged
		h.Clip, y[at] = 0, pick(r, uint32(0x7f800000), 0xff800000)
	case r.IntN(4) == 0: // beyond what binary16 has, or not finite
		y[at] = pick(r, uint32(0x47800000), 0x7f800000, 0xff800000)
	}
	s := device.Scores{N: n, Heads: h.Heads, KVHeads: h.KVHeads, Dim: h.Dim, PageRows: pageRows, Span: span,
		Local: h.Local,
		Scale: 0.3, Cap: pick(r, float32(0), 5)}
	a := device.Attend{N: n, Heads: h.Heads, KVHeads: h.KVHeads, Dim: h.Dim, PageRows: pageRows, Span: span,
		Local: h.Local,
		Sinks: r.flag()}
	z := r.floats(int(n * h.Heads * span))
	return []stepCall{
		{device.KernelHeads.With(c), device.Words(h), [][]uint32{y, tokens, r.floats(int(n * 2 * h.Rot)),
			r.floats(int(h.Dim * h.Heads)), r.floats(int(h.Dim * h.KVHeads)), table, queries(), cache(), cache(),
			fresh(n)}},
		{device.KernelScores.With(c), device.Words(s), [][]uint32{queries(), cache(), tokens, table, z}},
		{device.KernelAttend.With(c), device.Words(a), [][]uint32{z, cache(), tokens, table, r.floats(int(h.Heads)),
			r.floats(int(n * h.Heads * h.Dim))}},
	}
}
