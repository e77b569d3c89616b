package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// KernelsSchema names the form of a KernelReport in JSON. It changes when a field changes its meaning.
const KernelsSchema = "lowpack.bench.kernels/1"

// KernelOptions choose what Kernels measures.
type KernelOptions struct {
	Meter
	Layouts []string     // nil = every kernel once, on the layout that it was written for
	ISAs    []kernel.ISA // nil = all that this CPU offers
	Shapes  []pack.Shape // nil = no matrices, only Parts
	Group   int          // columns that share a scale; 0 = all
	Tokens  []int
	Threads []int    // 0 = all
	Parts   []string // of layers, by name, that are no matrices; nil = none
}

// KernelReport is the speed of kernels.
type KernelReport struct {
	Schema  string      `json:"schema"`
	Host    Host        `json:"host"`
	Rows    []KernelRow `json:"rows"`
	Parts   []PartRow   `json:"parts"`
	Choices []Choice    `json:"choices"`
	// Measured is the table from another machine that the choices are based on.
	Measured []kernel.Measurement `json:"measured"`
}

// KernelRow is one kernel on one matrix.
type KernelRow struct {
	Layout   string     `json:"layout"`
	Alphabet string     `json:"alphabet"`
	Kernel   string     `json:"kernel"` // as Kernel.String
	ISA      kernel.ISA `json:"isa"`
	M        int        `json:"m"`
	K        int        `json:"k"`
	Group    int        `json:"group"` // columns that share a scale; 0 = all
	Tokens   int        `json:"tokens"`
	Threads  int        `json:"threads"`
	Bytes    int        `json:"bytes"`  // of weights, and of group-wise scales, that one product reads
	Chosen   bool       `json:"chosen"` // by the runtime, for this layout, alphabet and shape
	// Refused is the reason why the layout or the kernel does not support this shape, and Wrong is where its result
	// differs from the definition. In both cases there are no figures.
	Refused string `json:"refused,omitempty"`
	Wrong   string `json:"wrong,omitempty"`
	Figures
}

// matrices reports whether matrices are measured.
func (o *KernelOptions) matrices() bool { return len(o.Shapes) > 0 && len(o.Tokens) > 0 }

// check refuses invalid options.
func (o *KernelOptions) check() error {
	if err := o.Meter.Check(); err != nil {
		return err
	}
	if err := kernel.Check(); err != nil {
		return err
	}
	for _, isa := range o.ISAs {
		if !kernel.Have(isa) {
			return fmt.Errorf("%w: instruction set %q; there are %v", pack.ErrUnsupported, isa, kernel.Available())
		}
	}
	for _, s := range o.Shapes {
		if err := s.Check(); err != nil {
			return err
		}
	}
	if !o.matrices() && len(o.Parts) == 0 || len(o.Threads) == 0 {
		return fmt.Errorf("%w: without a shape and a number of tokens, or a part, and a number of threads nothing is "+
			"measured", pack.ErrUnsupported)
	}
	if o.Group < 0 {
		return fmt.Errorf("%w: groups of %d columns", pack.ErrUnsupported, o.Group)
	}
	for _, n := range o.Tokens {
		if n < 1 {
			return fmt.Errorf("%w: a product with %d tokens", pack.ErrUnsupported, n)
		}
	}
	return nil
}

// Kernels measures kernels on random matrices and activations, with weights read from memory, and compares every result
// with the definition. Its error is ErrWrong if some differ, or else ErrNoise if some figures are noise; with both it
// returns a report.
func Kernels(ctx context.Context, o KernelOptions) (*KernelReport, error) {
	return runKernels(ctx, o, bindKernel)
}

func runKernels(ctx context.Context, o KernelOptions, bind binder) (*KernelReport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var cases []*kernelCase
	var err error
	if o.matrices() {
		if cases, err = o.cases(); err != nil {
			return nil, err
		}
	}
	parts, err := findParts(o.Parts)
	if err != nil {
		return nil, err
	}
	r := newKernelRun(&o, bind)
	defer r.close()
	for _, c := range cases {
		r.total += len(c.kernels) * len(o.Shapes) * len(o.Tokens) * len(r.limits)
	}
	r.total += len(parts) * len(r.limits)
	for _, s := range o.Shapes {
		for _, c := range cases {
			if err := r.layout(ctx, c, s); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range parts {
		if err := r.part(ctx, p, openPart); err != nil {
			return nil, err
		}
	}
	if len(cases) > 0 {
		r.Choices, r.Measured = choices(), kernel.Measured()
	}
	return &r.KernelReport, r.verdict()
}

// kernelCase is the kernels to be measured on one layout.
type kernelCase struct {
	spec    pack.Spec
	kernels []*kernel.Kernel
}

// anyLayout is the default layout for measuring kernels that support every layout.
const anyLayout = "blocked"

// cases lists what to measure: every kernel with the first of its alphabets.
func (o *KernelOptions) cases() (list []*kernelCase, err error) {
	layouts := o.Layouts
	if layouts == nil {
		layouts = packedLayouts()
	}
	for _, name := range layouts {
		l, err := pack.Open(pack.Spec{Name: name})
		if err != nil {
			return nil, err
		}
		for _, k := range kernel.Kernels() {
			every := k.Layout == "*" && (o.Layouts != nil || name == anyLayout)
			if k.Layout != name && !every || o.ISAs != nil && !slices.Contains(o.ISAs, k.ISA) {
				continue
			}
			spec := l.Spec()
			if k.Alphabets != nil {
				spec.Alphabet = k.Alphabets[0]
			}
			if o.first(spec, k.String()) == k {
				list = addCase(list, spec, k)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no kernel of %v serves %v on this CPU", pack.ErrUnsupported, o.ISAs, o.Layouts)
	}
	return list, nil
}

// packedLayouts lists the layouts of packed files, without exchange formats.
func packedLayouts() (names []string) {
	for _, info := range pack.Layouts() {
		if info.Block == 0 {
			names = append(names, info.Name)
		}
	}
	return names
}

// first returns the first kernel of a name that supports the requested groups of columns: others are for CPUs with
// fewer features. If none does, it returns the first kernel of that name, which is then refused.
func (o *KernelOptions) first(s pack.Spec, name string) *kernel.Kernel {
	var found *kernel.Kernel
	for _, k := range kernel.For(s) {
		if k.String() != name {
			continue
		}
		if k.SumsGroups(o.Group) {
			return k
		}
		found = cmp.Or(found, k)
	}
	return found
}

// addCase puts kernels of the same layout and alphabet together.
func addCase(list []*kernelCase, spec pack.Spec, k *kernel.Kernel) []*kernelCase {
	for _, c := range list {
		if c.spec.Name == spec.Name && c.spec.Alphabet == spec.Alphabet {
			c.kernels = append(c.kernels, k)
			return list
		}
	}
	return append(list, &kernelCase{spec, []*kernel.Kernel{k}})
}

type kernelRun struct {
	*KernelOptions
	KernelReport
	limits []*limits
	total  int
	want   references
	arena  *offheap.Buffer // packed copies of the matrix at hand
	bind   binder
}

// binder binds a matrix to a kernel. Tests replace bindKernel by wrong kernels.
type binder func(k *kernel.Kernel, m *matrix, packed []byte) (product, error)

// product is the measured part of kernel.Weights.
type product interface {
	Panels() int
	Bytes() int
	Chunk(tokens, threads int) int
	Multiplier(tokens int) kernel.ISA
	Mul(y []int32, ldy int, x *kernel.Activations, p0, p1 int)
	Close()
}

func newKernelRun(o *KernelOptions, bind binder) *kernelRun {
	r := &kernelRun{KernelOptions: o, bind: bind, KernelReport: KernelReport{Schema: KernelsSchema, Host: host(),
		Rows: []KernelRow{}, Parts: []PartRow{}, Choices: []Choice{}, Measured: []kernel.Measurement{}}}
	threads := threadCounts(o.Threads)
	memory := o.newMemory(slices.Max(threads))
	for _, n := range threads {
		r.limits = append(r.limits, newLimits(memory, n))
	}
	return r
}

func bindKernel(k *kernel.Kernel, m *matrix, packed []byte) (product, error) {
	w, err := kernel.BindWith(k, m.layout, m.shape, packed, m.group)
	return asProduct(w, err)
}

// asProduct gives weights in groups scales.
func asProduct(w *kernel.Weights, err error) (product, error) {
	if err != nil || w.Groups() == 1 {
		return w, err
	}
	p, err := newScaled(w)
	if err != nil {
		w.Close()
		return nil, err
	}
	return p, nil
}

func (r *kernelRun) close() {
	for _, l := range r.limits {
		l.close()
	}
	r.arena.Free()
}

// layout measures the kernels of a case on matrices of shape s.
func (r *kernelRun) layout(ctx context.Context, c *kernelCase, s pack.Shape) error {
	m, err := packRandom(c.spec, s, r.Group)
	if err != nil && !errors.Is(err, pack.ErrUnsupported) {
		return err
	}
	var choice *kernel.Kernel
	if err == nil {
		choice = chosen(m)
	}
	for _, k := range c.kernels {
		row := KernelRow{Layout: c.spec.Name, Alphabet: c.spec.Alphabet, Kernel: k.String(), ISA: k.ISA, M: s.M, K: s.K,
			Group: r.Group}
		if err != nil {
			row.Refused = err.Error()
			r.Rows = append(r.Rows, row)
			continue
		}
		row.Chosen = k == choice
		if err := r.kernel(ctx, k, m, row); err != nil {
			return err
		}
	}
	return nil
}

// kernel measures one kernel with all numbers of tokens and threads.
func (r *kernelRun) kernel(ctx context.Context, k *kernel.Kernel, m *matrix, row KernelRow) error {
	copies, err := r.copies(k, m)
	if err != nil {
		if !errors.Is(err, pack.ErrUnsupported) {
			return err
		}
		row.Refused = err.Error()
		r.Rows = append(r.Rows, row)
		return nil
	}
	defer copies.close()
	row.Bytes = copies.list[0].Bytes()
	want, err := r.want.of(ctx, r.limits[len(r.limits)-1].pool, m, slices.Max(r.Tokens))
	if err != nil {
		return err
	}
	for _, l := range r.limits {
		for _, n := range r.Tokens {
			row.Tokens, row.Threads = n, l.pool.Threads()
			r.progress(len(r.Rows), r.total, fmt.Sprintf("%s ×%d, %s", row.Kernel, n, Threads(row.Threads)))
			if row.Wrong, err = copies.compare(ctx, l.pool, want, n); err != nil {
				return err
			}
			row.Figures = Figures{}
			if row.Wrong == "" {
				if row.Figures, err = copies.measure(ctx, &r.Meter, l, want, n); err != nil {
					return err
				}
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return nil
}

// verdict returns the error of the report.
func (r *kernelRun) verdict() error {
	var wrong []string
	noisy := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Wrong != "" {
			wrong = append(wrong, fmt.Sprintf("kernel %s, alphabet %s, shape [%d, %d], %s: %s", row.Kernel,
				row.Alphabet, row.M,
				row.K, Threads(row.Threads), row.Wrong))
		}
		if row.Noise {
			noisy++
		}
	}
	for i := range r.KernelReport.Parts {
		row := &r.KernelReport.Parts[i]
		if row.Wrong != "" {
			wrong = append(wrong, fmt.Sprintf("%s of %s, %s: %s", row.Part, row.Model, Threads(row.Threads), row.Wrong))
		}
		if row.Noise {
			noisy++
		}
	}
	all := len(r.Rows) + len(r.KernelReport.Parts)
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %d of %d measurements; the first: %s", ErrWrong, len(wrong), all, wrong[0])
	}
	return r.noise(noisy, all)
}
