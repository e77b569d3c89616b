package counting

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// ternary is a matrix of codes, in panels of 64 rows: 16 words for 4 columns.
func ternary(t *testing.T, rows, columns, perRow int) device.Matrix {
	t.Helper()
	l, err := pack.Open(pack.Spec{Name: "vnni4i-64", Alphabet: pack.Ternary.Name})
	if err != nil {
		t.Fatal(err)
	}
	scales := 1
	if perRow > 0 {
		scales = rows * perRow
	}
	return device.Matrix{Name: "codes", Rows: rows, Codes: &device.CodeMatrix{Layout: l,
		Shape: pack.Shape{M: rows, K: columns}, Data: make([]byte, (columns+3)/4*16*4), Scales: make([]float32, scales),
		PerRow: perRow, Group: columns}}
}

// plain is a matrix of floats of some bytes each.
func plain(kind device.FloatType, rows, columns, bytes int) device.Matrix {
	return device.Matrix{Name: "floats", Rows: rows, Type: kind, Data: make([]byte, rows*columns*bytes)}
}

// small is a model of two equal layers, with codes, floats, a bias, norms, sinks and a window.
func small(t *testing.T) *device.Model {
	rms := device.NormWeights{Kind: device.NormRMS, Weights: make([]float32, 8)}
	layer := device.NormWeights{Kind: device.NormLayer, Weights: make([]float32, 8), Bias: make([]float32, 8)}
	values := plain(device.F32, 4, 8, 4)
	values.Bias = make([]float32, 4)
	b := device.Block{AttnNorm: rms, FFNNorm: layer, FFNPostNorm: rms, Gate: device.GateSiLU, Local: true,
		Sinks: make([]float32, 2),
		QKV: device.Linear{In: 8, Out: 16,
			Matrices: []device.Matrix{ternary(t, 8, 8, 0), plain(device.F32, 4, 8, 4), values}},
		O: device.Linear{In: 8, Out: 8, Matrices: []device.Matrix{plain(device.BF16, 8, 8, 2)}},
		GateUp: device.Linear{In: 8, Out: 24,
			Matrices: []device.Matrix{ternary(t, 12, 8, 0), ternary(t, 12, 8, 0)}},
		Down: device.Linear{In: 12, Out: 8, Matrices: []device.Matrix{ternary(t, 8, 12, 1)}}}
	return &device.Model{Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, Vocab: 6, AttnScale: 1,
		Blocks: []device.Block{b, b}, Norm: rms, LogitScale: 2,
		Head: device.Linear{In: 8, Out: 6, Matrices: []device.Matrix{plain(device.F16, 6, 8, 2)}}}
}

// ofLayer is the cost of a layer of small for three tokens: two at positions 2 and 3 of a text, with a window of two
// positions, and the first one of another text. Worked out by hand from the definitions of the kernels.
var ofLayer = []Cost{
	{Weights: 4 * 8, Vectors: 4 * 3 * (8 + 8 + 4 + 1)},             // norm and codes
	{Weights: 128 + 4, Vectors: 4 * 3 * (4 + 1 + 8), Int8: 3 * 64}, // queries
	{Weights: 128, Vectors: 4 * 3 * (8 + 4), Floats: 3 * 32},       // keys
	{Weights: 128 + 4*4, Vectors: 4 * 3 * (8 + 4), Floats: 3 * 32}, // values
	{Vectors: 4 * 3 * (16 + 8), CacheWritten: 4 * 3 * 8},           // heads
	{CacheRead: 4 * 4 * 4, Vectors: 4 * 2 * (3*4 + 5), Attention: 5 * 2 * 4},
	{Weights: 4 * 2, CacheRead: 4 * 4 * 4, Vectors: 4 * 2 * (3*4 + 5), Attention: 5 * 2 * 4},
	{Vectors: 4 * 3 * (8 + 8)},
	{Weights: 128, Vectors: 4 * 3 * (8 + 2*8), Floats: 3 * 64}, // added to the residual stream
	{Weights: 4 * 2 * 8, Vectors: 4 * 3 * (8 + 8 + 4 + 1)},
	{Weights: 128 + 4, Vectors: 4 * 3 * (4 + 1 + 12), Int8: 3 * 96}, // gate
	{Weights: 128 + 4, Vectors: 4 * 3 * (4 + 1 + 12), Int8: 3 * 96}, // up
	{Vectors: 4 * 3 * (24 + 12 + 4 + 1)},
	{Weights: 192 + 4*8, Vectors: 4 * 3 * (4 + 1 + 8), Int8: 3 * 96}, // down
	{Weights: 4 * 8, Vectors: 4 * 3 * (2*8 + 2*8)},                   // norm, and added to the residual stream
}

// ofHead is the cost of the logits of one token.
var ofHead = []Cost{
	{Weights: 4 * 8, Vectors: 4 * (8 + 8)},
	{Weights: 96, Vectors: 4 * (8 + 6), Floats: 48},
	{Vectors: 4 * 2 * 6},
}

// TestCounts: what a pass of a small model costs, step by step, in lists and barriers, is what was worked out by hand.
func TestCounts(t *testing.T) {
	d := New("vulkan", 0)
	p, err := device.Load(d, small(t), device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bytes() != d.Allocated() {
		t.Errorf("%d bytes allocated, %d planned", d.Allocated(), p.Bytes())
	}
	d.Reset()
	run(t, p)
	want := append(append(append([]Cost(nil), ofLayer...), ofLayer...), ofHead...)
	if len(d.Dispatches) != len(want) {
		t.Fatalf("%d dispatches; want %d", len(d.Dispatches), len(want))
	}
	for i, c := range d.Dispatches {
		if c != want[i] {
			t.Errorf("dispatch %d: %+v; want %+v", i, c, want[i])
		}
	}
	// Keys, values and up wait for nothing: 3 steps of a layer. Layers are one list, however many they are run in; the
	// residual stream and the logits are what the host does not reach.
	if apart := 3 * 2; d.Submits != 2 || d.Barriers != len(want)-apart+2 || d.Copies != 2 {
		t.Errorf("%d submits, %d barriers, %d copies", d.Submits, d.Barriers, d.Copies)
	}
	// Tokens, pages, flags and the residual stream of the pass, a row and the logits of the head, and the flags.
	if copied := 3*16 + 2*4 + 3*4 + 3*8*4 + 4 + 6*4 + 3*4; d.Copied != copied {
		t.Errorf("%d bytes copied, want %d", d.Copied, copied)
	}
}

// TestCountsOfTop: the largest logits of two parts of a row cost a step for these and one for what they leave, and a
// copy of the last pairs from memory that the host reaches.
func TestCountsOfTop(t *testing.T) {
	const vocab = device.TopPart + 1
	m := small(t)
	m.Head = device.Linear{In: 8, Out: vocab, Matrices: []device.Matrix{plain(device.F32, vocab, 8, 4)}}
	m.Vocab = vocab
	d := New("vulkan", 0)
	p, err := device.Load(d, m, device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bytes() != d.Allocated() {
		t.Errorf("%d bytes allocated, %d planned", d.Allocated(), p.Bytes())
	}
	d.Reset()
	logits := [][]float32{make([]float32, vocab), make([]float32, vocab)}
	if err := p.Top([]uint32{1, 2}, logits); err != nil {
		t.Fatal(err)
	}
	const most = device.TopMost
	want := []Cost{{Vectors: 4 * 2 * (vocab + 2*2*most)}, {Vectors: 4 * 2 * (2*2*most + 2*most)}}
	if n := len(d.Dispatches); n != 5 || d.Dispatches[3] != want[0] || d.Dispatches[4] != want[1] {
		t.Errorf("%d dispatches: %+v; want %+v", n, d.Dispatches, want)
	}
	if copied := 2*4 + 2*most*8; d.Copies != 0 || d.Copied != copied {
		t.Errorf("%d copies, %d bytes; want %d", d.Copies, d.Copied, copied)
	}
}

// run computes three tokens, and the logits of the last.
func run(t *testing.T, p *device.Pass) {
	t.Helper()
	tokens := []device.Token{{Position: 2, From: 1}, {Position: 3, From: 2}, {Position: 0, Pages: 1}}
	in := &device.Input{Tokens: tokens, Pages: []uint32{0, 1}, H: make([]float32, 3*8), Span: 4}
	if err := p.Run(in); err != nil {
		t.Fatal(err)
	}
	logits := []float32{1, 1, 1, 1, 1, 1}
	if err := p.Logits([]uint32{2}, [][]float32{logits}); err != nil {
		t.Fatal(err)
	}
	flags, err := p.Flags(3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range flags {
		if flags[i] != device.NoStep || logits[i] != 0 {
			t.Errorf("flags %x, logits %v", flags, logits)
		}
	}
}

// TestRanges: a device that binds less at once has more dispatches of the same costs in all.
func TestRanges(t *testing.T) {
	total := func(most int) (n int, c Cost) {
		m := small(t)
		m.Head = device.Linear{In: 8, Out: 600, Matrices: []device.Matrix{plain(device.F32, 600, 8, 4)}}
		m.Vocab = 600
		d := New("vulkan", most)
		p, err := device.Load(d, m, device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4})
		if err != nil {
			t.Fatal(err)
		}
		d.Reset()
		if err := p.Logits([]uint32{2}, [][]float32{make([]float32, 600)}); err != nil {
			t.Fatal(err)
		}
		for _, one := range d.Dispatches {
			one.Vectors = 0 // each part reads the vectors
			c.Add(one)
		}
		return len(d.Dispatches), c
	}
	whole, want := total(0)
	parts, got := total(8 << 10)
	if whole != 3 || parts != 5 || got != want {
		t.Errorf("%d dispatches of %+v; in parts %d of %+v", whole, want, parts, got)
	}
}

// TestCountsOfOffsets: the same with a KV cache of int8, and down with minima and an order of columns.
func TestCountsOfOffsets(t *testing.T) {
	m := small(t)
	m.Cache = device.CacheI8
	l, err := pack.Open(pack.Spec{Name: "vnni4i-64", Alphabet: pack.Int4.Name})
	if err != nil {
		t.Fatal(err)
	}
	const rows, columns, width, panel = 8, 12, 16, 3 * 32 * 4
	for i := range m.Blocks {
		m.Blocks[i].Down.Matrices = []device.Matrix{{Name: "offset", Rows: rows, Codes: &device.CodeMatrix{Layout: l,
			Shape: pack.Shape{M: rows, K: columns}, Data: make([]byte, panel), Scales: make([]float32, rows),
			Grouped: true, PerRow: 1, Group: columns, Order: []uint32{0, 2, 1, 3, 5, 4, 6, 8, 7, 9, 11, 10},
			Minima: &device.Minima{Type: device.F32, Width: width, Data: make([]byte, rows*width*4)}}}}
	}
	d := New("vulkan", 0)
	p, err := device.Load(d, m, device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bytes() != d.Allocated() {
		t.Errorf("%d bytes allocated, %d planned", d.Allocated(), p.Bytes())
	}
	d.Reset()
	run(t, p)
	layer := append([]Cost(nil), ofLayer[:13]...)
	const row = 2 // words of 4 codes and their scale, of a key, a value or a query
	layer[4] = Cost{Vectors: 4 * 3 * (16 + 2*row), CacheWritten: 4 * 3 * 2 * row}
	layer[5] = Cost{CacheRead: 4 * 4 * row, Vectors: 4 * 2 * (3*row + 5), Attention: 5 * 2 * 4}
	layer[6].CacheRead = 4 * 4 * row
	layer = append(layer,
		Cost{Weights: 4 * columns, Vectors: 4 * 3 * 2 * 4}, // reorder
		Cost{Vectors: 4 * 3 * (4 + 1 + 1 + width)},         // sums
		Cost{Weights: rows * width * 4, Vectors: 4 * 3 * (width + rows), Floats: 3 * rows * width},
		Cost{Weights: panel + 4*rows, Vectors: 4 * 3 * (4 + 1 + rows + 1 + rows), Int8: 3 * rows * columns},
		ofLayer[14])
	want := append(append(append([]Cost(nil), layer...), layer...), ofHead...)
	if len(d.Dispatches) != len(want) {
		t.Fatalf("%d dispatches; want %d", len(d.Dispatches), len(want))
	}
	for i, c := range d.Dispatches {
		if c != want[i] {
			t.Errorf("dispatch %d: %+v; want %+v", i, c, want[i])
		}
	}
}

// TestLacks: what a device has no kernel for is refused by name, however much memory it has.
func TestLacks(t *testing.T) {
	for _, c := range []struct {
		lacks  device.Kernel
		change func(*device.Model)
		want   string
	}{
		{device.KernelHeads.With(device.CacheI4), func(m *device.Model) { m.Cache = device.CacheI4 },
			"a KV cache of type i4"},
		{device.KernelOffsetCodes, func(m *device.Model) {
			m.Blocks[1].Down.Matrices[0].Codes.Zeros = make([]int8, 8)
		}, `"codes": `},
		{device.KernelReorder, func(m *device.Model) { m.Blocks[1].Down.Matrices[0].Codes.Order = make([]uint32, 12) },
			"an order of columns"},
	} {
		info, m := New("vulkan", 0).Info(), small(t)
		m.Blocks[0].Down = device.Linear{In: 12, Out: 8, Matrices: []device.Matrix{ternary(t, 8, 12, 1)}}
		m.Blocks[1].Down = device.Linear{In: 12, Out: 8, Matrices: []device.Matrix{ternary(t, 8, 12, 1)}}
		c.change(m)
		shape := device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4}
		if err := device.Fits(info, m, shape); err != nil {
			t.Error(err)
		}
		info.Lacks = []device.Kernel{c.lacks}
		err := device.Fits(info, m, shape)
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("without %s: %v", c.lacks, err)
		}
	}
}

// TestUnknownKernel: a kernel without a cost is refused.
func TestUnknownKernel(t *testing.T) {
	if _, err := New("vulkan", 0).Record([]device.Step{{Kernel: "new"}}); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
	for _, k := range device.Kernels() {
		if costOf(k) == nil {
			t.Errorf("%s has no cost", k)
		}
	}
}

// TestLayers: as many layers fit as have the memory that loading them takes. A layer that no kernel computes is an
// error also where the host would compute it.
func TestLayers(t *testing.T) {
	shape := device.Shape{Tokens: 4, Rows: 2, Context: 8, Pages: 4, PageRows: 4}
	need := func(n int) int {
		p, err := device.Load(New("vulkan", 0), small(t).Last(n), shape)
		if err != nil {
			t.Fatal(err)
		}
		return p.Bytes()
	}
	one, two := need(1), need(2)
	info := New("vulkan", 0).Info()
	for _, c := range []struct{ free, layers int }{{one - 1, 0}, {one, 1}, {two - 1, 1}, {two, 2}, {2 * two, 2}} {
		info.Free = c.free
		n, err := device.Layers(info, small(t), shape)
		if n != c.layers || errors.Is(err, pack.ErrLimit) != (n == 0) {
			t.Errorf("%d layers fit in %d bytes; want %d: %v", n, c.free, c.layers, err)
		}
	}
	m := small(t)
	const groups = 1025 // with zero points of their own
	wide := ternary(t, 8, 16*groups, groups)
	wide.Codes.Group, wide.Codes.Zeros = 16, make([]int8, 8*groups)
	m.Blocks[0].Down = device.Linear{In: 16 * groups, Out: 8, Matrices: []device.Matrix{wide}}
	info.Free = one
	if _, err := device.Layers(info, m, shape); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}
