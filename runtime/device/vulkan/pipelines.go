//go:build vulkan

package vulkan

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

//go:embed spirv/*.spv
var modules embed.FS

const computeStage = 0x20

// pipeline is a shader with its specialization constants.
type pipeline struct {
	module              string
	constants           []uint32
	handle, layout, set handle
}

// pipeline returns a shader for n buffers and some words of push constants, compiled before or now.
func (g *gpu) pipeline(module string, buffers, words int, own ...uint32) (*pipeline, error) {
	r := &g.routes
	constants := append([]uint32{r.guard, flag(r.fused), flag(r.divides), flag(r.bad)}, own...)
	for _, p := range g.pipelines {
		if p.handle != 0 && p.module == module && slices.Equal(p.constants, constants) {
			return p, nil
		}
	}
	p := &pipeline{module: module, constants: constants}
	g.pipelines = append(g.pipelines, p) // Close frees what there is of it, also if it fails here
	bindings := make([]setBinding, buffers)
	for i := range bindings {
		bindings[i] = setBinding{uint32(i), storageBuffer, 1, computeStage, nil}
	}
	if err := g.do("vkCreateDescriptorSetLayout", at(&setLayoutInfo{sType: 32, count: uint32(buffers),
		bindings: &bindings[0]}), 0, at(&p.set)); err != nil {
		return nil, err
	}
	if err := g.do("vkCreatePipelineLayout", at(&layoutInfo{sType: 30, setCount: 1, sets: &p.set, pushCount: 1,
		push: &pushRange{computeStage, 0, uint32(4 * words)}}), 0, at(&p.layout)); err != nil {
		return nil, err
	}
	code, err := modules.ReadFile("spirv/" + module + ".spv")
	if err != nil {
		return nil, err
	}
	shader := new(handle)
	if err := g.do("vkCreateShaderModule", at(&moduleInfo{sType: 16, size: uintptr(len(code)), code: &code[0]}), 0,
		at(shader)); err != nil {
		return nil, err
	}
	defer call(g.function("vkDestroyShaderModule"), g.handle, *shader, 0)
	entries := make([]constantEntry, len(constants))
	for i := range entries {
		entries[i] = constantEntry{uint32(i), uint32(4 * i), 4}
	}
	info := &pipelineInfo{sType: 29, layout: p.layout, stage: stageInfo{sType: 18, stage: computeStage, module: *shader,
		name: cString("main"), constants: &constantInfo{uint32(len(entries)), &entries[0], uintptr(4 * len(entries)),
			&constants[0]}}}
	if strings.HasSuffix(module, byMatrices) {
		const fullSubgroups = 2
		info.stage.flags, info.stage.next = fullSubgroups, ptr(&subgroupSizeInfo{1000225001, nil, g.matrices.subgroup})
	}
	return p, g.do("vkCreateComputePipelines", 0, 1, at(info), 0, at(&p.handle))
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func ceilDiv(a, b uint32) uint32 { return (a + b - 1) / b }

// The sizes that shaders have fixed.
const (
	mostGroups  = 1024 // activation scales of a vector
	mostHeadDim = 512
	tile        = 64 // positions of a workgroup of scores
	floatRows   = 16 // rows of a workgroup of floats
)

// launch chooses the shader and the workgroups of a step.
func (g *gpu) launch(s *device.Step) (l launch, err error) {
	buffers, words := s.Kernel.Buffers(), len(s.Constants)
	kernel, cache := s.Kernel.Of()
	simple := func(x, y, z uint32, own ...uint32) (launch, error) {
		p, err := g.pipeline(string(kernel), buffers, words, own...)
		return launch{p, x, y, z}, err
	}
	switch kernel {
	case device.KernelPrepare:
		op := device.OperationOf[device.Prepare](s.Constants)
		if ceilDiv(op.In, op.Group) > mostGroups {
			return l, fmt.Errorf("%w: %d activation scales of a vector", pack.ErrUnsupported, ceilDiv(op.In, op.Group))
		}
		return simple(op.N, 1, 1)
	case device.KernelCodes:
		return g.launchCodes(s, device.OperationOf[device.Codes](s.Constants))
	case device.KernelOffsetCodes:
		return g.launchCodes(s, device.OperationOf[device.OffsetCodes](s.Constants).Codes)
	case device.KernelReorder:
		op := device.OperationOf[device.Reorder](s.Constants)
		return simple(ceilDiv(op.QWords, 256), op.N, 1)
	case device.KernelSums:
		return simple(device.OperationOf[device.Sums](s.Constants).N, 1, 1)
	case device.KernelFloats:
		op := device.OperationOf[device.Floats](s.Constants)
		tokens := tokensAtOnce(op.N, 8)
		return simple(ceilDiv(op.Rows, floatRows), ceilDiv(op.N, tokens), 1, uint32(op.Type), tokens)
	case device.KernelHeads:
		op := device.OperationOf[device.Heads](s.Constants)
		if op.Dim > mostHeadDim {
			return l, fmt.Errorf("%w: heads of %d elements", pack.ErrUnsupported, op.Dim)
		}
		return simple(op.Heads+2*op.KVHeads, op.N, 1, uint32(cache))
	case device.KernelScores:
		op := device.OperationOf[device.Scores](s.Constants)
		tiles := ceilDiv(op.Span, tile)
		return simple(tiles, op.Heads, op.N, uint32(cache))
	case device.KernelAttend:
		op := device.OperationOf[device.Attend](s.Constants)
		return simple(op.Heads, op.N, 1, uint32(cache))
	case device.KernelResidual:
		return simple(device.OperationOf[device.Residual](s.Constants).N, 1, 1)
	case device.KernelTop:
		op := device.OperationOf[device.Top](s.Constants)
		return simple(ceilDiv(op.Len, device.TopPart), op.N, 1)
	}
	op := device.OperationOf[device.Finish](s.Constants)
	return simple(ceilDiv(op.Vocab, 256), op.N, 1)
}

// tokensAtOnce is the number of tokens for which a workgroup reads weights once.
func tokensAtOnce(n, most uint32) uint32 {
	t := uint32(1)
	for t < n && t < most {
		t *= 2
	}
	return t
}

// mostSums is the number of sums that the invocations of a workgroup share: 16 KiB, which every device has.
const mostSums = 4096

// launchCodes chooses how many columns of words a workgroup takes, how many invocations share a row, and how many
// tokens it computes. With few tokens an invocation reads four words at once, so that more bytes are on their way;
// with many it has sums of more tokens in place of that.
func (g *gpu) launchCodes(s *device.Step, op device.Codes) (l launch, err error) {
	if block := min(op.Group, op.ActGroup); block < op.K && block%4 != 0 {
		return l, fmt.Errorf("%w: scales of %d columns", pack.ErrUnsupported, block)
	}
	if g.routes.matrices && op.ByMatrices() {
		return g.launchMatrices(s, op)
	}
	module, tokens := string(s.Kernel), tokensAtOnce(op.N, 8)
	if g.routes.dots {
		module += "_dot"
	}
	lanes, vector, slices := min(16, op.Lanes), uint32(1), uint32(16)
	if tokens <= 2 {
		lanes, vector, slices = min(16, op.Lanes)/4, 4, 64
	}
	side := lanes * vector
	slices = min(slices, mostSums/(side*8/op.Bits), g.groupSize/lanes)
	columns := ceilDiv(op.Rows, op.Lanes*8/op.Bits) * op.Lanes
	p, err := g.pipeline(module, s.Kernel.Buffers(), len(s.Constants), op.Bits, tokens, lanes, slices, op.Ternary,
		vector)
	return launch{p, columns / side, ceilDiv(op.N, tokens), 1}, err
}
