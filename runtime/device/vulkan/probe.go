//go:build vulkan

package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// routes say what shaders leave to the units of a device; the rest they do in integers (_gpu/vulkan/exact.glsl).
type routes struct {
	guard          uint32 // exactly, where no subnormal can be, nowhere
	fused, divides bool
	dots           bool // dot products of packed bytes
	matrices       bool // products of many tokens by cooperative matrices
	bad            bool // the float unit is replaced by one that flushes and divides wrong
}

// The values of routes.guard.
const (
	exactly = iota
	guarded
	integers
)

// What an operation of a device is.
const (
	addition = iota
	product
	fusing
	division
	conversion
	operations
)

// probeLimit is how long the probe may take: a driver compiles its shaders first.
const probeLimit = 60 * time.Second

// probe finds out what the arithmetic of the device is worth, and chooses the routes.
func (g *gpu) probe() error {
	g.routes = routes{}
	triples := triples()
	got, err := g.results(triples)
	if err != nil {
		return err
	}
	var everywhere, plain [operations]bool
	for op := range operations {
		everywhere[op], plain[op] = judge(op, triples, got)
	}
	if !everywhere[conversion] {
		return fmt.Errorf("%w: the device converts integers to floats wrongly", pack.ErrUnsupported)
	}
	r := &g.routes
	switch {
	case everywhere[addition] && everywhere[product]:
		r.guard, r.fused, r.divides = exactly, everywhere[fusing], everywhere[division]
	case plain[addition] && plain[product]:
		r.guard, r.fused, r.divides = guarded, plain[fusing], plain[division]
	default:
		r.guard = integers
	}
	if g.settings.routes != nil {
		*r = *g.settings.routes
	}
	if r.guard == guarded {
		err := g.checkGuard()
		if errors.Is(err, errInexact) {
			*r = routes{guard: integers}
			err = g.checkGuard()
		}
		if err != nil {
			return err
		}
	}
	if r.dots = g.dots; r.dots && g.checkProducts() != nil {
		r.dots = false
		g.lacks(acceleratedDots)
	}
	if err := g.checkProducts(); err != nil {
		return err
	}
	why, err := g.probeMatrices()
	g.Probe = append(r.words(), g.matrices.words(why))
	return err
}

// lacks notes that the device does not have what its driver says.
func (g *gpu) lacks(what string) {
	g.Accelerated = slices.DeleteFunc(slices.Clone(g.Accelerated), func(s string) bool { return s == what })
}

// words say which routes were chosen.
func (r *routes) words() []string {
	choose := func(native bool, yes, no string) string {
		if native {
			return yes
		}
		return no
	}
	return []string{
		"additions and products: " + [...]string{"native", "native but for subnormals", "in integers"}[r.guard],
		"fused multiply-add: " + choose(r.fused, "native", "in integers"),
		"division: " + choose(r.divides, "native", choose(r.guard == integers, "in integers", "native, then mended")),
		"dot products of bytes: " + choose(r.dots, "native", "by bytes"),
	}
}

// triples are operands that tell exact arithmetic from other one: edges, cancellations, random bits.
func triples() (list [][3]uint32) {
	edges := []uint32{0, 1, 0x7fffff, 0x800000, 0x800001, 0x00ffffff, 0x1000000, 0x3effffff, 0x3f800000, 0x3f800001,
		0x40490fdb, 0x4b000001, 0x7f000000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x1f800000, 0x2000001, 0x33333333}
	for _, e := range edges[:len(edges):len(edges)] {
		edges = append(edges, e|1<<31)
	}
	r := rand.New(rand.NewPCG(1, 2))
	some := func() uint32 { return edges[r.IntN(len(edges))] }
	for i := range 1 << 14 {
		t := [3]uint32{some(), some(), some()}
		switch i % 4 {
		case 1:
			t = [3]uint32{r.Uint32(), r.Uint32(), r.Uint32()}
		case 2: // near 1: sums that cancel, products that round
			near := func() uint32 { return 0x3f000000 + r.Uint32N(1<<24) | r.Uint32()&(1<<31) }
			t = [3]uint32{near(), near(), 0}
			p := float32(math.Float32frombits(t[0]) * math.Float32frombits(t[1]))
			t[2] = math.Float32bits(-p) + r.Uint32N(3)
		case 3:
			t[r.IntN(3)] = r.Uint32()
		}
		list = append(list, t)
	}
	return list
}

// results are those of the operations of the device.
func (g *gpu) results(triples [][3]uint32) ([]uint32, error) {
	in := make([]byte, 0, 12*len(triples))
	for _, t := range triples {
		for _, v := range t {
			in = binary.LittleEndian.AppendUint32(in, v)
		}
	}
	p, err := g.pipeline("probe", 2, 1)
	if err != nil {
		return nil, err
	}
	from, err := g.hold(in)
	if err != nil {
		return nil, err
	}
	to, err := g.hold(make([]byte, 4*operations*len(triples)))
	if err != nil {
		return nil, err
	}
	step := device.Step{Buffers: []device.Range{from, to}, Constants: []uint32{uint32(len(triples))}}
	if err := g.runOne(&step, launch{p, ceilDiv(uint32(len(triples)), 64), 1, 1}); err != nil {
		return nil, err
	}
	return g.words(to)
}

// hold allocates memory with these bytes.
func (g *gpu) hold(data []byte) (device.Range, error) {
	m, err := g.Alloc(len(data), device.Host)
	if err != nil {
		return device.Range{}, err
	}
	r := device.Range{Memory: m, Bytes: len(data)}
	return r, g.Upload(r, data)
}

// words downloads a range.
func (g *gpu) words(from device.Range) ([]uint32, error) {
	data := make([]byte, from.Bytes)
	if err := g.Download(data, from); err != nil {
		return nil, err
	}
	list := make([]uint32, len(data)/4)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return list, nil
}

// runOne records a step, runs it and waits.
func (g *gpu) runOne(s *device.Step, l launch) error {
	c, err := g.begin()
	if err != nil {
		return err
	}
	defer c.Free()
	if err := g.do("vkCreateDescriptorPool", at(&setPoolInfo{sType: 33, most: 1, count: 1,
		sizes: &poolSize{storageBuffer, uint32(len(s.Buffers))}}), 0, at(&c.sets)); err != nil {
		return err
	}
	if err := c.dispatch(s, l); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	return c.Run(probeLimit)
}

// judge compares an operation with what NUMERICS N1 and N2 ask for: everywhere, and where guards would use it.
func judge(op int, triples [][3]uint32, got []uint32) (everywhere, plain bool) {
	everywhere, plain = true, true
	for i, t := range triples {
		want, have := math.Float32bits(exact(op, t)), got[operations*i+op]
		if want == have || isNaN(want) && isNaN(have) {
			continue
		}
		everywhere = false
		used := accepted(op, t, have)
		plain = plain && !used
	}
	return everywhere, plain
}

// accepted reports whether a guard accepts a result, as _gpu/vulkan/exact.glsl does.
func accepted(op int, t [3]uint32, have uint32) bool {
	if !isPlain(t[0]) || !isPlain(t[1]) || op == fusing && !isPlain(t[2]) {
		return false
	}
	safe, zero := have>>23&255-2 < 253, t[0]<<1 == 0 || t[1]<<1 == 0
	switch op {
	case addition:
		return safe || zero || t[0]^t[1] == 1<<31
	case division:
		return safe
	}
	return safe || zero
}

// exact is an operation rounded once.
func exact(op int, t [3]uint32) float32 {
	a, b, c := math.Float32frombits(t[0]), math.Float32frombits(t[1]), math.Float32frombits(t[2])
	switch op {
	case addition:
		return a + b
	case product:
		return a * b
	case fusing:
		return fma.Float32(a, b, c)
	case division:
		return a / b
	}
	return float32(int32(t[0]))
}

func isNaN(a uint32) bool { return a&0x7fffffff > 0x7f800000 }

func isPlain(a uint32) bool { return a>>23&255-1 < 254 || a<<1 == 0 }

// checkProducts compares integer products of the routes with plain ones, at the ends of their ranges: there are drivers
// that offer dot products and compute them wrongly.
func (g *gpu) checkProducts() error {
	const rows, k = 64, 256
	r := rand.New(rand.NewPCG(3, 4))
	weights, q := make([]byte, rows*k), make([]byte, k)
	want := make([]float32, rows)
	for i := range q {
		q[i] = byte(int8([...]int{-127, 127, 0, r.IntN(255) - 127}[r.IntN(4)]))
	}
	for m := range rows {
		sum := int32(0)
		for i := range k {
			w := int8([...]int{-128, 127, -1, r.IntN(256) - 128}[r.IntN(4)])
			weights[i/4*4*rows+m*4+i%4] = byte(w)
			sum += int32(w) * int32(int8(q[i]))
		}
		want[m] = float32(sum)
	}
	one := floatBytes(1)
	op := device.Codes{N: 1, Rows: rows, K: k, QWords: k / 4, LDY: rows, Lanes: 64, Bits: 8, Mul: 1, Group: k,
		ActGroup: k}
	const y = 5
	got, err := g.answer(device.KernelCodes, device.Words(op), y, weights, one, q, one, one, make([]byte, 4*rows))
	if err != nil {
		return err
	}
	for m := range want {
		if got[m] != math.Float32bits(want[m]) {
			return fmt.Errorf("%w: the device multiplies integers wrongly", pack.ErrUnsupported)
		}
	}
	return nil
}

// answer runs a step with these bytes in its buffers, and returns the words of one of them.
func (g *gpu) answer(k device.Kernel, constants []uint32, of int, data ...[]byte) ([]uint32, error) {
	var buffers []device.Range
	for _, d := range data {
		b, err := g.hold(d)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, b)
	}
	c, err := g.Record([]device.Step{{Kernel: k, Buffers: buffers, Constants: constants}})
	if err != nil {
		return nil, err
	}
	defer c.Free()
	if err := c.Run(probeLimit); err != nil {
		return nil, err
	}
	return g.words(buffers[of])
}

// floatBytes are floats as kernels read them.
func floatBytes(x ...float32) (data []byte) {
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}
