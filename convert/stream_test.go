package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/pack"
)

// TestLimits converts with little memory: tensors stay in memory, flow through it, or have rows longer than a Chunk;
// the bytes are the same.
func TestLimits(t *testing.T) {
	shards := func(o *synth.Options) { o.Shards = 3 }
	for _, c := range []struct {
		path    string
		recipes []packed.Recipe
	}{
		{mini(t, "bitnet-2b4t", nil), []packed.Recipe{{}, {Layout: "i2s"}, {Layout: "tl2"}}},
		{mini(t, "bitnet-2b4t-bf16", shards),
			[]packed.Recipe{{}, {Layout: "i2s"}, {Head: packed.HeadInt8}, {Head: packed.HeadScreen, Layout: "tl1"}}},
		{mini(t, "trilm-99m", shards), []packed.Recipe{{}}},
		{floatsAlone(t), []packed.Recipe{{}, {Quant: "int4", Scale: "group:32"}, {Quant: "int8", Layout: "vnni4"},
			{Layout: "i2s"}}},
	} {
		for _, recipe := range c.recipes {
			recipe.AllowLossy = true
			o := plain(recipe)
			want := once(t, c.path, o)
			for _, l := range []pipeline.Limits{
				{Chunk: 1 << 12, Flow: 8, Spare: 20, PerCode: 2, Stay: 1 << 30, Slots: 1 << 20},
				{Chunk: 1 << 12, Flow: 8, Spare: 1, PerCode: 0, Slots: 1},
				{Chunk: 1 << 10, Flow: 12, Spare: 0, PerCode: 2, Stay: 1 << 30, Slots: 1 << 20},
				{Chunk: 1 << 9, Flow: 4, Spare: 2, PerCode: 3, Stay: 1 << 30, Slots: 1},
				{Chunk: 64, Flow: 4, Spare: 0, PerCode: 2, Stay: 1 << 30, Slots: 1 << 20},
			} {
				for _, threads := range []int{1, 2, 7} {
					o.Threads = threads
					p, at := newPlan(t, c.path, o), newPlace(t, "")
					p.limits = l
					if _, err := p.Run(context.Background(), at.target); err != nil {
						t.Fatalf("%s, %+v, %+v: %v", c.path, recipe, l, err)
					}
					if digestAlone(t, at) != want {
						t.Errorf("%s, %+v, %+v, %d threads: other bytes", c.path, recipe, l, threads)
					}
				}
			}
		}
	}
}

// floatsAlone writes matrices of F32 and BF16 whose rows end anywhere in a chunk, between passthrough tensors.
func floatsAlone(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	tensors := map[string]raw{"e": {"F32", []int64{0, 4}, nil}, "v": bf16([]int64{3}, 1, 2, 3)}
	for name, shape := range map[string][2]int{"a": {1, 64}, "b": {300, 96}, "c": {65, 200}, "d": {7, 1000}} {
		n := shape[0] * shape[1]
		w := make([]float32, n)
		for i := range w {
			w[i] = float32((i*i*7919)%1009-504) / 512
		}
		tensors[name] = bf16([]int64{int64(shape[0]), int64(shape[1])}, w...)
		var wide []byte
		for _, x := range w {
			wide = binary.LittleEndian.AppendUint32(wide, math.Float32bits(x))
		}
		tensors[name+"32"] = raw{"F32", []int64{int64(shape[0]), int64(shape[1])}, wide}
	}
	writeWeights(t, path, tensors)
	return path
}

// TestFirstFault: of several faults of a tensor the first one is reported, for any number of goroutines.
func TestFirstFault(t *testing.T) {
	const nan = 0x7fc0
	path := floatsAlone(t)
	edit(t, filepath.Dir(path), func(m map[string]raw) {
		for _, i := range []int{64 * 200, 30 * 200, 31*200 + 7, 40 * 200} {
			m["c"] = set16(m["c"], i, nan)
		}
	})
	for _, quant := range []string{"absmean", "int4"} {
		for _, threads := range []int{1, 2, 7} {
			for range 5 {
				o := plain(packed.Recipe{Quant: quant, AllowLossy: true})
				o.Threads = threads
				p, at := newPlan(t, path, o), newPlace(t, "old")
				p.limits.Chunk = 1 << 10
				_, err := p.Run(context.Background(), at.target)
				if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), `tensor "c": `) ||
					!strings.Contains(err.Error(), "row 30, column 0") {
					t.Errorf("%s, %d threads: %v", quant, threads, err)
				}
				at.untouched(t, fmt.Sprint(quant, threads))
			}
		}
	}
}

// TestShorterWhileRead cuts a source file while it is read: in a tensor, and in a range that only the digest reads.
func TestShorterWhileRead(t *testing.T) {
	for size, want := range map[int64]string{1 << 12: "became shorter", 3: "" /* of the header */} {
		path := floatsAlone(t)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, at := newPlan(t, path, plain(packed.Recipe{AllowLossy: true})), newPlace(t, "old")
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(context.Background(), at.target)
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "model.safetensors") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
		at.untouched(t, "cut")
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		p = newPlan(t, path, plain(packed.Recipe{AllowLossy: true}))
		if err := os.WriteFile(path, append(bytes.Clone(whole), 0), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(context.Background(), at.target)
		if !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("longer: %v", err)
		}
		at.untouched(t, "longer")
	}
}

// TestRunTwice: a second Run of a plan is refused, since the first one has released its data.
func TestRunTwice(t *testing.T) {
	p := newPlan(t, floatsAlone(t), plain(packed.Recipe{AllowLossy: true}))
	if _, err := p.Run(context.Background(), newPlace(t, "").target); err != nil {
		t.Fatal(err)
	}
	at := newPlace(t, "old")
	if _, err := p.Run(context.Background(), at.target); err == nil || !strings.Contains(err.Error(), "run once") {
		t.Error(err)
	}
	at.untouched(t, "again")
}

// TestReadOnce counts reads of tensors: each is read once if memory suffices, twice otherwise.
func TestReadOnce(t *testing.T) {
	path := mini(t, "bitnet-2b4t-bf16", nil)
	for times, l := range map[int]pipeline.Limits{
		1: {Chunk: 1 << 10, Flow: 8, Spare: 20, PerCode: 2, Stay: 1 << 30, Slots: 1 << 20},
		2: {Chunk: 1 << 10, Flow: 8, Slots: 1 << 20},
	} {
		p := newPlan(t, path, plain(packed.Recipe{}))
		p.limits = l
		var mu sync.Mutex
		read := map[string]int{}
		p.read = func(x checkpoint.Tensor, b []byte, off int64) error {
			mu.Lock()
			read[x.Name] += len(b)
			mu.Unlock()
			return p.source.ReadAt(x, b, off)
		}
		at := newPlace(t, "")
		if _, err := p.Run(context.Background(), at.target); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.steps {
			want := int(s.from.Size)
			if s.entry != nil {
				want *= times
			}
			if got := read[s.from.Name]; got != want {
				t.Errorf("%+v: %d bytes of %q are read, of %d", l, got, s.from.Name, s.from.Size)
			}
		}
	}
}
