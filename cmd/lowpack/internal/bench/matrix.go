package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// matrix is a random matrix, packed.
type matrix struct {
	layout pack.Layout
	shape  pack.Shape
	group  int // columns that share a scale; 0 = all
	packed []byte
}

// randomCodes returns random codes of an alphabet: the same for a shape, whatever the layout.
func randomCodes(s pack.Shape, a pack.Alphabet) *pack.Matrix {
	m, random := pack.NewMatrix(s, a), rand.New(rand.NewPCG(1, uint64(s.K)))
	for i := range m.Codes {
		m.Codes[i] = a.Values[random.IntN(len(a.Values))]
	}
	return m
}

// randomActivations returns activations over the full range of values.
func randomActivations(tokens, k int) *kernel.Activations {
	x, random := kernel.NewActivations(tokens, k), rand.New(rand.NewPCG(2, uint64(k)))
	for t := range tokens {
		row := x.Row(t)
		for i := range row {
			row[i] = int8(random.IntN(2*kernel.MaxActivation+1) - kernel.MaxActivation)
		}
	}
	x.Finish()
	return x
}

// packRandom makes the matrix of a shape in a layout.
func packRandom(spec pack.Spec, s pack.Shape, group int) (*matrix, error) {
	l, err := pack.Open(spec)
	if err != nil {
		return nil, err
	}
	return packCodes(l, l.Spec().Alphabet, s, group)
}

// packCodes packs random codes of an alphabet into a layout that holds them.
func packCodes(l pack.Layout, alphabet string, s pack.Shape, group int) (*matrix, error) {
	size, err := l.PackedSize(s)
	if err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(alphabet)
	if err != nil {
		return nil, err
	}
	m := &matrix{l, s, group, make([]byte, size)}
	return m, l.Pack(m.packed, randomCodes(s, a))
}

// chosen is the kernel that kernel.Bind would choose for a matrix.
func chosen(m *matrix) *kernel.Kernel {
	w, err := kernel.Bind(m.layout, m.shape, m.packed, m.group)
	if err != nil {
		return nil
	}
	defer w.Close()
	return w.Kernel
}

// copies holds as many copies of a matrix as it takes for its weights to come from memory instead of a cache: a decode
// step, too, reads another matrix each time.
type copies struct {
	list  []product
	shape pack.Shape
	at    int // copy to multiply next
}

// mostCopies bounds the copies of a matrix; very small ones come from a cache.
const mostCopies = 1000

// copies binds a matrix to a kernel, again and again, until no cache holds all that it reads.
func (r *kernelRun) copies(k *kernel.Kernel, m *matrix) (*copies, error) {
	const line = 64
	size := (len(m.packed) + line - 1) / line * line
	room := r.limits[0].buffer.Bytes()
	n := min(room/size+1, mostCopies)
	var err error
	if r.arena == nil || len(r.arena.Bytes) < n*size+line {
		r.arena.Free()
		if r.arena, err = offheap.New(n*size + line); err != nil {
			return nil, err
		}
	}
	free := r.arena.Bytes
	c := &copies{shape: m.shape}
	for read := 0; read < room && len(c.list) < n; {
		copy(free, m.packed)
		p, err := r.bind(k, m, free[:len(m.packed)])
		if err != nil {
			c.close()
			return nil, err
		}
		c.list, free, read = append(c.list, p), free[size:], read+p.Bytes()
	}
	return c, nil
}

func (c *copies) close() {
	for _, p := range c.list {
		p.Close()
	}
}

// multiplication is a task: panels of a matrix by some activations.
type multiplication struct {
	product
	y   []int32
	ldy int
	x   *kernel.Activations
}

func (m *multiplication) Do(from, to int) { m.Mul(m.y, m.ldy, m.x, from, to) }

// compare multiplies n tokens by one copy after another, as measure does, until all results are compared, or some are
// and a time limit has passed. It returns where a result differs.
func (c *copies) compare(ctx context.Context, pool *kernel.Pool, want *reference, n int) (wrong string, err error) {
	const some, enough = 4, 100 * time.Millisecond
	y := make([]int32, n*c.shape.M)
	want.use(n)
	for i, start := 0, now(); i < len(c.list) && (i < some || since(start) < enough); i++ {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		for j := range y {
			y[j] = -1 << 31 // no sum is
		}
		p := c.list[i]
		pool.Run(p.Panels(), p.Chunk(n, pool.Threads()), &multiplication{p, y, c.shape.M, want.x})
		if wrong := want.compare(y); wrong != "" {
			return fmt.Sprintf("%d tokens: %s", n, wrong), nil
		}
	}
	return "", nil
}

// measure times products with n tokens. A slow product is timed on some of its panels.
func (c *copies) measure(ctx context.Context, m *Meter, l *limits, want *reference, n int) (Figures, error) {
	const long = 2 * time.Millisecond
	panels, first := c.list[0].Panels(), c.list[0]
	task := &multiplication{first, make([]int32, n*c.shape.M), c.shape.M, want.x}
	want.use(n)
	chunk := first.Chunk(n, l.pool.Threads())
	start := now()
	l.pool.Run(panels, chunk, task)
	part := panels
	if took := since(start); took > 2*long {
		part = min(panels, max(int(long*time.Duration(panels)/took), 2*chunk*l.pool.Threads()))
	}
	w := work{isa: first.Multiplier(n), bytes: first.Bytes(), ops: 2 * c.shape.M * c.shape.K * n,
		scale: float64(panels) / float64(part)}
	return l.measure(ctx, m, w, func() {
		c.at = (c.at + 1) % len(c.list)
		task.product = c.list[c.at]
		l.pool.Run(part, chunk, task)
	})
}

// reference is a product by the generic kernel, which is the definition.
type reference struct {
	x *kernel.Activations
	y []int32 // [tokens][M]
	m int
}

// use selects the first n tokens.
func (r *reference) use(n int) {
	r.x.Reset(n)
	r.x.Finish()
}

// references caches reference results by shape and alphabet.
type references map[string]*reference

// of computes the product of a matrix with a number of tokens, from its codes as int8 in a separate layout. The product
// with fewer tokens is a prefix of it.
func (r *references) of(ctx context.Context, pool *kernel.Pool, m *matrix, tokens int) (*reference, error) {
	key := fmt.Sprint(m.shape, m.group, m.layout.Spec().Alphabet, tokens)
	if (*r)[key] != nil {
		return (*r)[key], nil
	}
	bytes, err := pack.Open(pack.Spec{Name: anyLayout, Alphabet: pack.Int8.Name})
	if err != nil {
		return nil, err
	}
	plain, err := packCodes(bytes, m.layout.Spec().Alphabet, m.shape, m.group)
	if err != nil {
		return nil, err
	}
	all := kernel.For(plain.layout.Spec())
	w, err := bindKernel(all[len(all)-1], plain, plain.packed)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	ref := &reference{randomActivations(tokens, m.shape.K), make([]int32, tokens*m.shape.M), m.shape.M}
	task := &multiplication{w, ref.y, ref.m, ref.x}
	for p, step := 0, 4*pool.Threads(); p < w.Panels(); p += step {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		pool.Run(min(step, w.Panels()-p), 1, &stretch{task: task, parts: 1, at: p})
	}
	if *r == nil {
		*r = references{}
	}
	(*r)[key] = ref
	return ref, nil
}

// compare returns where y, [x.N][M], differs from the reference; "" if nowhere.
func (r *reference) compare(y []int32) string {
	want := r.y[:len(y)]
	if slices.Equal(y, want) {
		return ""
	}
	for i, v := range y {
		if v != want[i] {
			return fmt.Sprintf("row %d, token %d: %d instead of %d", i%r.m, i/r.m, v, want[i])
		}
	}
	panic("bench: equal, and not equal")
}
