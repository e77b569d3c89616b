package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/lowpack/lowpack/internal/numa"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// onNodes lets engines see a machine of so many nodes, with the CPUs of this one.
func onNodes(t testing.TB, n int) {
	t.Helper()
	cpus := numa.Here()
	all := cpus.CPUs()
	if len(all) == 0 {
		all = []int{0}
	}
	var top numa.Topology
	for i := range n {
		top.Nodes = append(top.Nodes, numa.Node{ID: i, CPUs: []int{all[i%len(all)]}})
	}
	before := machine
	machine = func() numa.Topology { return top }
	t.Cleanup(func() { machine = before })
}

// TestNUMAIsTheSame: nodes, threads and modes change no bit of the logits, of weights read where they are stored,
// repacked, and floats.
func TestNUMAIsTheSame(t *testing.T) {
	models := map[string]*view{
		"stored":   tiny(t),
		"repacked": fromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), "tmac2", false),
		"screened": trainedHead(t),
		"planes":   tiny16(t),
	}
	for name, v := range models {
		want := everything(t, engine(t, v, Options{Threads: 1, NUMA: NUMAOff}))
		for _, nodes := range []int{2, 3} {
			onNodes(t, nodes)
			for _, o := range []Options{{Threads: 3}, {Threads: 5, NUMA: NUMACopy, Batch: 17}} {
				e := engine(t, v, o)
				n, copied := e.Nodes()
				if n != nodes || copied > 0 != (o.NUMA == NUMACopy) {
					t.Errorf("%s, %v: %d nodes, %d bytes copied", name, o.NUMA, n, copied)
				}
				if !slices.EqualFunc(everything(t, e), want, func(a, b [][]float32) bool {
					return slices.EqualFunc(a, b, slices.Equal)
				}) {
					t.Errorf("%s, %d nodes, %d threads, %v: other logits", name, nodes, o.Threads, o.NUMA)
				}
			}
		}
	}
}

// TestNUMACopies: with NUMACopy every matrix that is read where it is stored is a copy, which the memory of the engine
// and its limit count; nothing is copied in other modes, or on one node.
func TestNUMACopies(t *testing.T) {
	v := tiny(t)
	inFile := func(b []byte) bool {
		for _, x := range v.tensors {
			if len(b) > 0 && len(x.Data) > 0 && unsafe.SliceData(b) == unsafe.SliceData(x.Data) {
				return true
			}
		}
		return false
	}
	all := func(_ portion, b []byte) []byte { return b }
	count := func(e *Engine) (n int) {
		for _, stage := range e.weights.stages(all) {
			for _, b := range stage {
				if inFile(b) {
					n++
				}
			}
		}
		return n
	}
	plain := engine(t, v, Options{Threads: 2, NUMA: NUMACopy})
	if n, copied := plain.Nodes(); n != 1 || copied != 0 || count(plain) == 0 {
		t.Errorf("one node: %d nodes, %d bytes copied, %d matrices in the file", n, copied, count(plain))
	}
	onNodes(t, 2)
	if _, copied := engine(t, v, Options{Threads: 2}).Nodes(); copied != 0 {
		t.Errorf("%d bytes are copied without being asked for", copied)
	}
	if n, _ := engine(t, v, Options{Threads: 2, NUMA: NUMAOff}).Nodes(); n != 1 {
		t.Errorf("off: %d nodes", n)
	}
	if n, _ := engine(t, v, Options{Threads: 1}).Nodes(); n != 1 {
		t.Errorf("one thread: %d nodes", n)
	}
	e := engine(t, v, Options{Threads: 2, NUMA: NUMACopy})
	_, copied := e.Nodes()
	if want := e.weights.bytes(false) - e.weights.embed.rowBytes; copied != want || count(e) != 0 {
		t.Errorf("%d bytes are copied, the layers have %d; %d matrices lie in the file", copied, want, count(e))
	}
	if got := e.MemoryBytes() - plain.MemoryBytes(); got != copied {
		t.Errorf("the copy counts %d bytes, and has %d", got, copied)
	}
	room := e.MemoryBytes()
	for _, c := range []struct {
		memory int
		fits   bool
	}{{copied - 1, false}, {copied + 1, false}, {room, true}} { // the second has no room to compute in
		small, err := New(v, Options{Threads: 2, NUMA: NUMACopy, Memory: c.memory})
		if c.fits && err == nil {
			small.Close()
		} else if c.fits || !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), "NUMA") {
			t.Errorf("a copy of %d bytes with %d of memory: %v", copied, c.memory, err)
		}
	}
	e.taken = 1 << 60
	if n := e.roomForCopies(); n >= 0 {
		t.Errorf("%d bytes are free that another engine has reserved", n)
	}
	l, need := &loader{Engine: e, view: v}, 0
	for _, n := range e.desc.Tensors() {
		if n.Linear {
			need += l.readInPlace(&n)
		}
	}
	if head := e.weights.head.bytes(); need > copied || need < copied-head {
		t.Errorf("copies are to take %d bytes, and took %d, of which the head %d", need, copied, head)
	}
	if _, err := New(v, Options{NUMA: "mirror"}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("an unknown mode: %v", err)
	}
}

// TestNUMAPortions: the parts of a matrix that nodes settle are all of it, in order, whichever matrices stand before.
func TestNUMAPortions(t *testing.T) {
	onNodes(t, 3)
	e := engine(t, tiny(t), Options{Threads: 7})
	if part := (portion{99, 1, 100}).of(e.pool, 0, make([]byte, 8)); len(part) != 0 {
		t.Errorf("the first node has %d bytes of the last row", len(part))
	}
	for _, f := range e.weights.projections() {
		for i := range f.matrices {
			m := &f.matrices[i]
			b, at := make([]byte, 1000+i), 0
			for node := range 3 {
				part := portionOf(f, m).of(e.pool, node, b)
				if len(part) > 0 && &part[0] != &b[at] {
					t.Fatalf("node %d begins elsewhere than at %d", node, at)
				}
				at += len(part)
			}
			if at != len(b) {
				t.Errorf("nodes have %d of %d bytes", at, len(b))
			}
		}
	}
}

// TestNUMAResidents: repacked weights settle, each memory once.
func TestNUMAResidents(t *testing.T) {
	onNodes(t, 2)
	e := engine(t, fromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), "tmac2", false), Options{Threads: 2})
	seen, bytes := map[*byte]bool{}, 0
	for _, r := range e.residents() {
		if at := unsafe.SliceData(r.bytes); seen[at] {
			t.Error("memory settles twice")
		} else {
			seen[at], bytes = true, bytes+len(r.bytes)
		}
	}
	want := 0
	for _, w := range e.weights.codes() {
		for _, b := range w.Owned() {
			want += len(b)
		}
	}
	if want == 0 || bytes != want {
		t.Errorf("%d bytes settle; repacked are %d", bytes, want)
	}
}

// TestNUMAShared: data that matrices share are copied once, and settle once: nodes that cut them at different places
// would write the same pages.
func TestNUMAShared(t *testing.T) {
	onNodes(t, 2)
	e := engine(t, tiny(t), Options{Threads: 2, NUMA: NUMACopy})
	l, data := &loader{Engine: e, room: 1 << 40}, []byte{1, 2, 3}
	first, err := l.near(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.near(data[:2])
	if err != nil || &first[0] != &again[0] || &first[0] == &data[0] || len(again) != 2 {
		t.Errorf("%v is copied twice, or not at all: %v", again, err)
	}
	e.weights.blocks[1].down = e.weights.blocks[0].down
	seen := map[*byte]bool{}
	for _, r := range e.residents() {
		if at := unsafe.SliceData(r.bytes); seen[at] {
			t.Error("memory settles twice")
		} else {
			seen[at] = true
		}
	}
}
