//go:build vulkan

package vulkan

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lowpack/lowpack/runtime/device"
)

// matrices are the cooperative matrices of a device that products of many tokens use: int8, M×K times K×N, summed up in
// int32 by a subgroup. The zero value says that there are none.
type matrices struct {
	m, n, k  uint32
	subgroup uint32 // invocations of a subgroup
}

const matrixExtension = "VK_KHR_cooperative_matrix"

// byMatrices ends the names of modules that use them.
const byMatrices = "_matrix"

// What a workgroup of _gpu/vulkan/matrices/codes.comp computes, with how many subgroups.
const matrixRows, matrixTokens, matrixColumns, matrixSubgroups = 64, 32, 64, 4

// matrixFeatures are the features that these shaders need, before others: small integers, the memory model, subgroups
// of one size, matrices.
func matrixFeatures(next ptr, on uint32) *boolFeatures {
	int8s := &boolFeatures{sType: 1000082000, next: next, on: [4]uint32{0, on}}
	model := &boolFeatures{sType: 1000211000, next: ptr(int8s), on: [4]uint32{on}}
	sizes := &boolFeatures{sType: 1000225002, next: ptr(model), on: [4]uint32{on, on}}
	return &boolFeatures{sType: 1000506000, next: ptr(sizes), on: [4]uint32{on}}
}

// hasMatrices reports whether the device has all of matrixFeatures.
func (p *physical) hasMatrices() bool {
	first := matrixFeatures(nil, 0)
	call(p.in.function("vkGetPhysicalDeviceFeatures2"), p.handle, at(&features{sType: 1000059000, next: ptr(first)}))
	sizes := (*boolFeatures)(first.next)
	model := (*boolFeatures)(sizes.next)
	int8s := (*boolFeatures)(model.next)
	return first.on[0] != 0 && sizes.on[0] != 0 && sizes.on[1] != 0 && model.on[0] != 0 && int8s.on[1] != 0
}

// hold reports whether workgroups of at most so many invocations can have matrixSubgroups subgroups of this size.
func (s *subgroupSizeProperties) hold(size, most uint32) bool {
	return s.requiredStages&computeStage != 0 && s.mostOfGroup >= matrixSubgroups && matrixSubgroups*size <= most
}

// describeMatrices finds matrices that the shaders can use, on a device of Vulkan 1.3 with the extension.
func (p *physical) describeMatrices() {
	subgroup := &subgroupProperties{sType: 1000094000}
	sizes := &subgroupSizeProperties{sType: 1000225000, next: ptr(subgroup)}
	stages := &matrixProperties{sType: 1000506002, next: ptr(sizes)}
	call(p.in.function("vkGetPhysicalDeviceProperties2"), p.handle,
		at(&properties{sType: 1000059001, next: ptr(stages)}))
	if !p.hasMatrices() || stages.stages&computeStage == 0 || !sizes.hold(subgroup.size, p.groupSize) {
		return
	}
	n, get := new(uint32), p.in.function("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
	if call(get, p.handle, at(n), 0) != 0 || *n == 0 {
		return
	}
	kinds := make([]matrixKind, *n)
	for i := range kinds {
		kinds[i].sType = 1000506001
	}
	call(get, p.handle, at(n), at(&kinds[0]))
	if p.matrices = chosenMatrices(kinds[:*n]); p.matrices.m != 0 {
		p.matrices.subgroup = subgroup.size
		p.Accelerated = append(p.Accelerated, p.matrices.accelerated())
	}
}

// chosenMatrices are the largest that tile what a workgroup computes; the first of several.
func chosenMatrices(kinds []matrixKind) (best matrices) {
	const int8s, int32s, ofSubgroup = 3, 5, 3
	for _, k := range kinds {
		if k.a != int8s || k.b != int8s || k.c != int32s || k.result != int32s || k.saturating != 0 ||
			k.scope != ofSubgroup {
			continue
		}
		tiles := divides(k.m, matrixRows/matrixSubgroups) && divides(k.n, matrixTokens) && k.k >= 4 &&
			divides(k.k, matrixColumns)
		if tiles && k.m*k.n*k.k > best.m*best.n*best.k {
			best = matrices{m: k.m, n: k.n, k: k.k}
		}
	}
	return best
}

func divides(a, b uint32) bool { return a != 0 && b%a == 0 }

// accelerated names them in Info.Accelerated.
func (m matrices) accelerated() string {
	return fmt.Sprintf("cooperative matrices of int8, %d×%d×%d", m.m, m.n, m.k)
}

// words say what computes the products of prompts, and why matrices are not used.
func (m matrices) words(why error) string {
	switch {
	case m.m == 0:
		return "products of prompts: as those of few tokens"
	case why != nil:
		return fmt.Sprintf("products of prompts: as those of few tokens; cooperative matrices are not used: %v", why)
	}
	return fmt.Sprintf("products of %d tokens and more: by cooperative matrices", device.MatrixTokens)
}

// launchMatrices is launchCodes for many tokens.
func (g *gpu) launchMatrices(s *device.Step, op device.Codes) (l launch, err error) {
	m := &g.matrices
	p, err := g.pipeline(string(s.Kernel)+byMatrices, s.Kernel.Buffers(), len(s.Constants), op.Bits, op.Ternary,
		matrixSubgroups*m.subgroup, m.m, m.n, m.k)
	return launch{p, ceilDiv(op.Rows, matrixRows), ceilDiv(op.N, matrixTokens), 1}, err
}

// probeMatrices chooses whether matrices are used, and says why not. What they fail with may have been the end of the
// device: then its other products fail too.
func (g *gpu) probeMatrices() (why, err error) {
	if g.matrices.m == 0 {
		return nil, nil
	}
	g.routes.matrices = true
	why = g.checkMatrices()
	if why == nil || g.hangs {
		return nil, why
	}
	g.routes.matrices = false
	g.lacks(g.matrices.accelerated())
	return why, g.checkProducts()
}

// checkMatrices finds out whether the device computes products by cooperative matrices exactly, with rows, columns and
// tokens that fill no tile.
func (g *gpu) checkMatrices() error {
	return g.checkSums(matrixTokens+1, 2*matrixRows-3, 2*matrixColumns+4)
}

// checkSums compares products of so many tokens with plain ones, at the ends of their ranges: of signed bytes, whose
// scales are those of a few columns, fewer than of a matrix, and of ternary codes.
func (g *gpu) checkSums(tokens, rows, k uint32) error {
	for _, op := range []device.Codes{{Lanes: 64, Bits: 8, Grouped: 1, Group: 12},
		{Lanes: 16, Bits: 2, Ternary: 1, Group: k}} {
		op.N, op.Rows, op.K, op.QWords, op.LDY, op.ActGroup = tokens, rows, k, (k+15)/16*4, rows, k
		op.PerRow = ceilDiv(k, op.Group)
		weights, q, want := plainProducts(&op)
		ones := func(n uint32) []byte { return floatBytes(slices.Repeat([]float32{1}, int(n))...) }
		const y = 5
		got, err := g.answer(device.KernelCodes, device.Words(op), y, weights, ones(rows*op.PerRow), q, ones(tokens),
			ones(1), make([]byte, 4*tokens*rows))
		if err := same(got, want, err); err != nil {
			return err
		}
	}
	return nil
}

// plainProducts makes up codes and activations of a product whose scales are 1, and computes it: sums of at most 2²⁴,
// which are floats, of up to 1,024 columns.
func plainProducts(op *device.Codes) (weights, q []byte, want []float32) {
	r := rand.New(rand.NewPCG(5, 6))
	panel := op.Lanes * 8 / op.Bits
	quads := (op.K + 3) / 4
	weights = make([]byte, ceilDiv(op.Rows, panel)*quads*op.Lanes*4)
	q, want = make([]byte, op.N*op.QWords*4), make([]float32, op.N*op.Rows)
	for t := range op.N {
		for i := range op.K {
			q[t*op.QWords*4+i] = byte(int8([...]int{-127, 127, 127, r.IntN(255) - 127}[r.IntN(4)]))
		}
	}
	for m := range op.Rows {
		for i := range op.K {
			digit, code := uint32(0), int32(0)
			if op.Ternary != 0 {
				digit = r.Uint32N(3)
				code = [...]int32{0, 1, -1}[digit]
			} else {
				code = int32([...]int{-128, 127, -127, r.IntN(256) - 128}[r.IntN(4)])
				digit = uint32(uint8(code))
			}
			within := m % panel
			at := ((m/panel*quads+i/4)*op.Lanes+within%op.Lanes)*4 + i%4
			weights[at] |= byte(digit << (op.Bits * (within / op.Lanes)))
			for t := range op.N {
				want[t*op.Rows+m] += float32(code * int32(int8(q[t*op.QWords*4+i])))
			}
		}
	}
	return weights, q, want
}
