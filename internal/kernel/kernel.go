// Package kernel multiplies packed weights by int8 activations, exactly: the result of every kernel is the int32 sum of
// products that the codes define, whatever the layout, instruction set or order of summation. With one token the
// product is a GEMV (decode), with several a GEMM (prefill).
//
// Bind joins a packed matrix with the best kernel of this CPU; Weights.Mul multiplies a range of its row panels, so
// that a Pool can share the panels among workers. One Activations value serves every matrix that reads the same
// vectors.
//
// To read on: dispatch.go lists all kernels and chooses among them, methods.go says how each of them multiplies,
// panels.go, rowmajor.go and veclut.go walk through the weights, groupwise.go applies group-wise scales, repack.go
// serves layouts without a kernel of their own, and internal/asm is the assembly. The plain Go kernel of generic.go is
// the definition. All others are compared with it by ==.
package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// Kernel is one way to multiply the matrices of a layout (or of every layout) on one instruction set.
type Kernel struct {
	Layout    string   // name of the layout in package pack; "*" for every layout
	Alphabets []string // of the codes; nil for every alphabet
	ISA       ISA
	About     string // how it works, in one line

	needs     feature // beyond what ISA implies
	groupStep int     // group sizes must be multiples of this many columns; 0 = only whole rows
	groupMax  int     // columns of a group at most; 0 = any number
	copies    bool    // Bind repacks the matrix
	bind      func(w *Weights) (product, error)
}

// product multiplies the panels of one bound matrix.
type product interface{ mul(c call) }

// String is the name in reports: layout and instruction set.
func (k *Kernel) String() string { return k.Layout + "/" + string(k.ISA) }

// call is one GEMV or GEMM: products of panels [p0, p1) with tokens [t0, t1) of x.
type call struct {
	y          []int32
	ldy        int
	x          *Activations
	p0, p1     int
	t0, t1     int
	token, row int  // that the first element of y belongs to
	scaled     bool // y holds floats, one per token and row, to which scaled sums are added; only for a scaler
}

// at returns the index in y of the result of group g.
func (c *call) at(t, g, groups, m int) int {
	if c.scaled {
		return (t-c.token)*c.ldy + m - c.row
	}
	return ((t-c.token)*groups+g)*c.ldy + m - c.row
}

// Weights is a packed matrix bound to a kernel. It is safe for concurrent use: Mul may be called at the same time for
// different panels or different outputs.
type Weights struct {
	Kernel *Kernel
	Layout pack.Layout
	Shape  pack.Shape
	Group  int // columns per scale (group size); K when there is one group

	packed  []byte        // as given to Bind, PackedSize bytes
	rows    int           // rows of a panel
	bytes   int           // bytes of weights that all panels read; set by the kernel where it repacks them
	own     *offheap.Part // where the kernel unpacked something; nil = nowhere
	product product
	forced  Forced

	scaling   *scaling // empty until Scale
	ownScales *offheap.Part
}

// Bind joins a packed matrix with the best kernel that this CPU can run. packed has the size that l.PackedSize states
// (longer is allowed: files pad tensors) and must stay readable until Close. group is the number of columns that share
// a scale; 0 when there is one scale per row or tensor; the last group may be shorter.
//
// Bind may read the whole matrix and may allocate memory outside the Go heap; Close releases it.
func Bind(l pack.Layout, s pack.Shape, packed []byte, group int) (*Weights, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	if group < 1 || group > s.K {
		group = s.K
	}
	for _, k := range For(l.Spec()) {
		if k.checkGroup(s.K, group) == nil {
			return BindWith(k, l, s, packed, group)
		}
	}
	panic("kernel: the generic kernel serves every layout")
}

// Native reports whether the kernel that Bind chooses, for matrices with that many columns and group columns per scale,
// reads the layout as it is. Other kernels repack the whole matrix, or are slow.
func Native(s pack.Spec, columns, group int) bool {
	if group < 1 || group > columns {
		group = columns
	}
	for _, k := range For(s) {
		if k.checkGroup(columns, group) == nil {
			return k.Layout == s.Name && !k.copies
		}
	}
	return false
}

// SumsGroups reports whether the kernel sums groups of group columns in longer rows; all kernels sum whole rows, 0.
func (k *Kernel) SumsGroups(group int) bool { return group == 0 || k.checkGroup(group+1, group) == nil }

// checkGroup refuses columns per scale that the kernel cannot sum.
func (k *Kernel) checkGroup(columns, group int) error {
	if group < columns && k.groupStep == 0 {
		return fmt.Errorf("%w: kernel %v sums whole rows, not groups of %d columns", pack.ErrUnsupported, k, group)
	}
	if group < columns && group%k.groupStep != 0 {
		return fmt.Errorf("%w: kernel %v needs groups of a multiple of %d columns, not %d", pack.ErrUnsupported, k,
			k.groupStep, group)
	}
	if k.groupMax > 0 && group > k.groupMax {
		return fmt.Errorf("%w: kernel %v sums at most %d columns, not %d", pack.ErrUnsupported, k, k.groupMax, group)
	}
	return nil
}

// BindWith is Bind with a given kernel. It refuses a kernel that does not serve the layout, group size or CPU.
func BindWith(k *Kernel, l pack.Layout, s pack.Shape, packed []byte, group int) (*Weights, error) {
	return Forced{}.BindWith(k, l, s, packed, group)
}

// BindWith is the function of that name, with a way forced.
func (f Forced) BindWith(k *Kernel, l pack.Layout, s pack.Shape, packed []byte, group int) (*Weights, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if group < 1 || group > s.K {
		group = s.K
	}
	spec := l.Spec()
	if !k.serves(spec) {
		return nil, fmt.Errorf("%w: kernel %v cannot multiply layout %s, alphabet %s on this CPU",
			pack.ErrUnsupported, k,
			spec.Name, spec.Alphabet)
	}
	if err := k.checkGroup(s.K, group); err != nil {
		return nil, err
	}
	size, err := l.PackedSize(s)
	if err != nil {
		return nil, err
	}
	if len(packed) < size {
		return nil, fmt.Errorf("%w: layout %s of shape %v takes %d bytes, there are %d", pack.ErrCorrupt,
			spec.Name, s, size,
			len(packed))
	}
	if err := checkRange(spec, group); err != nil {
		return nil, err
	}
	w := &Weights{Kernel: k, Layout: l, Shape: s, Group: group, packed: packed[:size], bytes: size, forced: f,
		scaling: &scaling{}}
	if w.product, err = k.bind(w); err != nil {
		w.Close()
		return nil, fmt.Errorf("kernel %v, shape %v: %w", k, s, err)
	}
	return w, nil
}

// checkRange refuses matrices whose sums could leave int32. Kernels compute modulo 2³², so that intermediate sums may
// wrap, and a result that fits is exact.
func checkRange(spec pack.Spec, group int) error {
	most, err := largest(spec.Alphabet)
	if err != nil {
		return err
	}
	if group > math.MaxInt32/(most*MaxActivation) {
		return fmt.Errorf("%w: sums of %d products of alphabet %s may exceed int32; at most %d", pack.ErrLimit,
			group, spec.Alphabet, math.MaxInt32/(most*MaxActivation))
	}
	return nil
}

// largest returns the largest magnitude of the values of an alphabet.
func largest(alphabet string) (most int, err error) {
	a, err := pack.FindAlphabet(alphabet)
	if err != nil {
		return 0, err
	}
	for _, v := range a.Values {
		most = max(most, int(v), -int(v))
	}
	return most, nil
}

// checkZeros is checkRange for weights minus zero points.
func checkZeros(spec pack.Spec, group int, zeros []int8) error {
	a, err := pack.FindAlphabet(spec.Alphabet)
	if err != nil || zeros == nil {
		return err
	}
	most := 0
	for _, z := range []int8{slices.Min(zeros), slices.Max(zeros)} {
		most = max(most, int(a.Values[len(a.Values)-1])-int(z), int(z)-int(a.Values[0]))
	}
	if most > 0 && group > math.MaxInt32/(most*MaxActivation) {
		return fmt.Errorf("%w: sums of %d products of weights up to %d may exceed int32; at most %d",
			pack.ErrLimit, group,
			most, math.MaxInt32/(most*MaxActivation))
	}
	return nil
}

// Panels is the number of units of work: row panels that can be multiplied in any order and in parallel.
func (w *Weights) Panels() int { return ceilDiv(w.Shape.M, w.rows) }

// PanelRows is the number of rows of one panel; the last may cover fewer.
func (w *Weights) PanelRows() int { return w.rows }

// Groups is the number of results per row and token: the number of groups of columns that share a scale.
func (w *Weights) Groups() int { return ceilDiv(w.Shape.K, w.Group) }

// Stored returns the bytes given to Bind if these are what Mul reads; nil where they were repacked.
func (w *Weights) Stored() []byte {
	if w.own != nil {
		return nil
	}
	return w.packed
}

// Owned lists the memory in which Bind and Scale keep what they repacked. All of it is divided by panels.
func (w *Weights) Owned() (list [][]byte) {
	for _, p := range []*offheap.Part{w.own, w.ownScales} {
		if p != nil {
			list = append(list, p.Bytes)
		}
	}
	return list
}

// Bytes is the number of bytes of weights that one Mul over all panels reads.
func (w *Weights) Bytes() int { return w.bytes }

// Multiplier returns the instruction set that Mul, or MulScaled where there are groups, multiplies the given number of
// tokens with. On CPUs with tile registers it is AVX-512 for kernels, groups and token counts that do not use them.
func (w *Weights) Multiplier(tokens int) ISA {
	if b, ok := w.product.(*batches); w.Kernel.ISA == AMX && !(ok && b.onTiles(tokens)) {
		return AVX512VNNI
	}
	return w.Kernel.ISA
}

// Mul computes the products of the rows of panels [p0, p1) with every token of x:
//
//	y[(t*G+g)*ldy+m] = Σ (code[m][k] − zero) · x.Row(t)[k] over the columns k of group g, G = w.Groups()
//
// with the zero points set by Scale, if any. Without groups y is [x.N][ldy] with ldy ≥ M. Elements of y that belong to
// no row are left unchanged.
func (w *Weights) Mul(y []int32, ldy int, x *Activations, p0, p1 int) {
	if p0 < 0 || p1 > w.Panels() || x.K != w.Shape.K || ldy < w.Shape.M || len(y) < (x.N*w.Groups()-1)*ldy+w.Shape.M {
		panic(fmt.Sprintf("kernel: Mul of panels [%d, %d) of %d, shape %v, by %d tokens of %d into %d, stride %d",
			p0, p1, w.Panels(), w.Shape, x.N, x.K, len(y), ldy))
	}
	if p0 < p1 && x.N > 0 {
		w.sums(call{y: y, ldy: ldy, x: x, p0: p0, p1: p1, t1: x.N})
	}
}

// batchPanels is the minimum number of panels that a call of Mul should get for the given number of tokens, if there
// are that many: with fewer, the tables that a kernel builds for a batch would not pay off, and it multiplies without
// them. It is 1 for kernels without tables.
func (w *Weights) batchPanels(tokens int) int {
	if b, ok := w.product.(interface{ batchRows(tokens int) int }); ok {
		return ceilDiv(b.batchRows(tokens), w.rows)
	}
	return 1
}

// Chunk returns the number of panels that a worker should take at once when the given number of threads share a
// product: enough to make a call long compared with the counter that hands chunks out, and to amortize tables built for
// a batch; few enough that all threads have work and finish together.
func (w *Weights) Chunk(tokens, threads int) int {
	threads = max(threads, 1)
	parts := min(w.bytes/chunkBytes, max(shareParts*threads, w.bytes/vectorBytes))
	if tokens == 1 && threads == 1 {
		parts = 1 // sums of one token stay in a cache
	}
	if b := w.batchPanels(tokens); b > 1 {
		if parts = w.Panels() / b; threads == 1 {
			parts = 1 // the more rows the better
		}
	}
	parts = ceilDiv(max(parts, 1), threads) * threads
	chunk := ceilDiv(w.Panels(), parts)
	if chunk > 1 {
		chunk += chunk & 1 // kernels that take two panels at once leave none over
	}
	return chunk
}

// A worker takes a shareParts-th of its share at once, up to vectorBytes of weights and at least chunkBytes: smaller
// chunks begin in cold memory more often, larger ones leave too much work with a core that is busy elsewhere.
const (
	chunkBytes = 256 << 10
	shareParts = 3
)

// ownMemory holds weights that kernels have repacked or unpacked.
var ownMemory offheap.Arena

// Close releases memory that Bind allocated. The weights must not be used afterwards.
func (w *Weights) Close() {
	w.own.Free()
	w.ownScales.Free()
	*w = Weights{}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
