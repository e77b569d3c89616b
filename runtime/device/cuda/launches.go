package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// launch is the start of a kernel.
type launch struct {
	kernel  string
	grid    [3]uint32
	threads uint32
	cluster uint32 // blocks of a cluster; 0 = no clusters
	shared  uint32 // bytes
	param   []byte
}

// shape is what the choice of launches depends on.
type shape struct {
	processors int
	shared     int // bytes of a block, at most
	capability int // 90 = 9.0
}

const (
	oldest = 80 // compute capability
	hopper = 90

	threads = 256
)

// launches turns steps into launches. Products of two-bit codes that are apart become one.
func (s shape) launches(steps []device.Step) ([]launch, error) {
	var all []launch
	for i := 0; i < len(steps); {
		n := together(steps[i:])
		l := s.product(steps[i : i+n])
		if l == nil {
			l = s.step(&steps[i])
		}
		if l == nil {
			return nil, fmt.Errorf("%w: CUDA: there is no kernel %s", pack.ErrUnsupported, steps[i].Kernel)
		}
		if int(l.shared) > s.shared-staticShared {
			return nil, fmt.Errorf("%w: CUDA: a vector of %s takes %d bytes; the shared memory of a block has %d",
				pack.ErrUnsupported, steps[i].Kernel, l.shared, s.shared-staticShared)
		}
		all = append(all, *l)
		i += n
	}
	return all, nil
}

// staticShared is room for what kernels declare themselves.
const staticShared = 12 << 10

// param is the parameter of a kernel: addresses, then constants.
func param(s *device.Step) []byte {
	var p []byte
	for _, r := range s.Buffers {
		p = binary.LittleEndian.AppendUint64(p, address(r))
	}
	for _, w := range s.Constants {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	for len(p)%8 != 0 {
		p = append(p, 0)
	}
	return p
}

// step is the launch of a step alone; nil if its kernel is one that the module lacks.
func (s shape) step(step *device.Step) *launch {
	l := &launch{kernel: "step_" + string(step.Kernel), threads: threads, param: param(step)}
	switch step.Kernel {
	case device.KernelPrepare:
		c := device.OperationOf[device.Prepare](step.Constants)
		l.grid, l.shared = [3]uint32{c.N, 1, 1}, 4*c.In
	case device.KernelCodes:
		anyCodes(l, device.OperationOf[device.Codes](step.Constants))
	case device.KernelFloats:
		c := device.OperationOf[device.Floats](step.Constants)
		tokens := atOnce(c.N)
		l.kernel += fmt.Sprintf("_%d", tokens)
		l.grid = [3]uint32{ceil(c.Rows, threads/16), ceil(c.N, tokens), 1}
	case device.KernelHeads:
		c := device.OperationOf[device.Heads](step.Constants)
		l.grid, l.shared, l.threads = [3]uint32{c.Heads + 2*c.KVHeads, c.N, 1}, 4*c.Dim, 64
	case device.KernelScores:
		c := device.OperationOf[device.Scores](step.Constants)
		l.grid = [3]uint32{s.stretches(ceil(c.Span, threads/16), c.KVHeads*c.N), c.KVHeads, c.N}
		l.shared = 4 * c.Dim * c.Heads / c.KVHeads
	case device.KernelAttend:
		c := device.OperationOf[device.Attend](step.Constants)
		l.grid, l.threads = [3]uint32{c.Heads, c.N, 1}, ceil(c.Dim, 32)*32+32
	case device.KernelResidual:
		c := device.OperationOf[device.Residual](step.Constants)
		l.grid, l.shared = [3]uint32{c.N, 1, 1}, 4*c.Len
	case device.KernelFinish:
		c := device.OperationOf[device.Finish](step.Constants)
		l.grid = [3]uint32{ceil(c.Vocab, threads), c.N, 1}
	default:
		return nil
	}
	return l
}

// lacks are the kernels that the module does not have: of a KV cache of other formats than float32, and of weights with
// zero points, minima or an order of columns; and that of the largest logits.
func lacks() (list []device.Kernel) {
	for _, k := range device.Kernels() {
		base, cache := k.Of()
		switch {
		case cache != device.CacheF32, base == device.KernelReorder, base == device.KernelSums,
			base == device.KernelOffsetCodes, base == device.KernelTop:
			list = append(list, k)
		}
	}
	return list
}

// stretches is the number of blocks among which the positions of a head are divided: enough for all processors, and few
// where most of them would find nothing to do.
func (s shape) stretches(most, heads uint32) uint32 {
	return min(most, max(ceil(uint32(s.processors)*8, heads), 1))
}

// atOnce is the number of tokens for which a row of a matrix is read once, of those that there are kernels for.
func atOnce(tokens uint32) uint32 {
	if tokens == 1 {
		return 1
	}
	return 4
}

func ceil(n, unit uint32) uint32 { return (n + unit - 1) / unit }

// anyCodes chooses a kernel that takes codes of any width.
func anyCodes(l *launch, c device.Codes) {
	panels := ceil(c.Rows, c.Lanes*8/c.Bits)
	if c.Grouped != 0 || c.ActGrouped != 0 {
		l.kernel = fmt.Sprintf("codes%d_blocks", c.Bits)
		l.grid = [3]uint32{ceil(panels*c.Lanes, threads), c.N, 1}
		return
	}
	tokens := atOnce(c.N)
	l.kernel = fmt.Sprintf("codes%d_whole_%d", c.Bits, tokens)
	l.grid = [3]uint32{1, panels, ceil(c.N, tokens)}
}

// group is the number of steps that a product of two-bit codes takes at most.
const group = 3

// ternary says whether a step is a product of two-bit codes in the layouts vnni4i and vnni4i-64 with one scale, or one
// per row.
func ternary(s *device.Step) bool {
	if s.Kernel != device.KernelCodes {
		return false
	}
	c := device.OperationOf[device.Codes](s.Constants)
	return c.Ternary != 0 && (c.Lanes == 8 || c.Lanes == 16) && c.Bits == 2 && c.Grouped == 0 && c.ActGrouped == 0
}

// together is the number of steps at the start that make one launch.
func together(steps []device.Step) int {
	if !ternary(&steps[0]) {
		return 1
	}
	first, n := device.OperationOf[device.Codes](steps[0].Constants), 1
	for n < min(group, len(steps)) && steps[n].Apart && ternary(&steps[n]) {
		c := device.OperationOf[device.Codes](steps[n].Constants)
		if c.N != first.N || c.K != first.K || c.QWords != first.QWords {
			break
		}
		n++
	}
	return n
}

// product is the launch of products of two-bit codes; nil if the steps are others.
func (s shape) product(steps []device.Step) *launch {
	if !ternary(&steps[0]) {
		return nil
	}
	c := device.OperationOf[device.Codes](steps[0].Constants)
	var rows [group]uint32
	for i := range steps {
		rows[i] = device.OperationOf[device.Codes](steps[i].Constants).Rows
	}
	l := &launch{threads: threads}
	var tile uint32
	switch {
	case c.N == 1:
		tile = l.one(s, c.K, rows)
	case c.N <= few || s.capability != hopper:
		tile = l.few(s, c.N, rows)
	default:
		tile = l.many(c.N, rows)
	}
	l.param = groupParam(steps, rows, tile)
	return l
}

// groupParam is the parameter of a product: the steps, and where the tiles of each begin.
func groupParam(steps []device.Step, rows [group]uint32, tile uint32) []byte {
	var p []byte
	for i := range group {
		p = append(p, param(&steps[min(i, len(steps)-1)])...)
	}
	from := uint32(0)
	for i := range group {
		if i >= len(steps) {
			from = 1<<32 - 1
		}
		p = binary.LittleEndian.AppendUint32(p, from)
		from += tiles(rows[i], tile)
	}
	return append(p, 0, 0, 0, 0)
}

// tiles is the number of tiles of some rows, which are padded to whole panels.
func tiles(rows, tile uint32) uint32 { return ceil(ceil(rows, 64)*64, tile) }

// all is the number of tiles of all steps.
func all(rows [group]uint32, tile uint32) (n uint32) {
	for _, r := range rows {
		n += tiles(r, tile)
	}
	return n
}

// one chooses the kernel for one token, and returns the rows of its tiles: half a panel where there are few panels.
// There, the blocks of a cluster divide the columns of wide matrices.
func (l *launch) one(s shape, k uint32, rows [group]uint32) (tile uint32) {
	halves, parts, vectors := all(rows, 32), uint32(1), 4
	switch tile = 32; {
	case halves > 1024:
		tile = 64
	case halves > uint32(s.processors):
	case k <= 4096 || s.capability != hopper:
		vectors = 8
	case k <= 16384:
		parts, vectors = 2, 8
	default:
		tile, parts, vectors = 64, 4, 8
	}
	l.kernel = fmt.Sprintf("w2a8_gemv%d_%d", tile, vectors)
	l.grid, l.cluster = [3]uint32{parts, all(rows, tile), 1}, parts
	return tile
}

// few is the number of tokens up to which a matrix is read for 8 or 32 of them at a time.
const few = 32

func (l *launch) few(s shape, n uint32, rows [group]uint32) (tile uint32) {
	const panel = 64
	tokens, parts := uint32(8), uint32(1)
	if n > 8 {
		tokens = 32
	}
	if s.capability == hopper && all(rows, panel) < 100 {
		parts = 2
	}
	l.kernel, l.shared = fmt.Sprintf("w2a8_few_%d", tokens), tokens*65*4*8
	l.grid, l.cluster = [3]uint32{parts, all(rows, panel), ceil(n, tokens)}, parts
	return panel
}

// many is the launch for wgmma.
func (l *launch) many(n uint32, rows [group]uint32) (tile uint32) {
	const panels, width = 128, 64
	l.kernel, l.shared = fmt.Sprintf("w2a8_many_%d", width), 8*(128*width+4096)
	l.grid = [3]uint32{all(rows, panels), ceil(n, width), 1}
	return panels
}
