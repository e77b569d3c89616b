package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/device/counting"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestDevices: what the passes of the bundled model ask of a device follows from its shapes: 6 layers of hidden size
// 256 with MLPs of 688, 2 heads of 32 for keys and values, and 2,560 tokens, whose head is of floats.
func TestDevices(t *testing.T) {
	o := quickModel()
	o.Device, o.Prompts, o.Batches = "vulkan", []int{9, 200, 100_000}, []int{1, 8}
	r, err := Devices(context.Background(), tiny(t, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	const (
		layers, hidden, mlp, kv = 6, 256, 688, 2 * 32
		matrices                = layers * (2*hidden*hidden + 2*hidden*kv + 3*hidden*mlp)
		head                    = hidden * 2560
	)
	var labels []string
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			labels = append(labels, row.Label()+": refused")
			continue
		}
		labels = append(labels, fmt.Sprintf("%s: %d submits, %d GPUs", row.Label(), row.Submits, len(row.Times)))
	}
	want := `prompt of 9: 2 submits, 3 GPUs
prompt of 200: 3 submits, 3 GPUs
prompt of 100000: refused
generate 6: 2 submits, 3 GPUs
generate 8 × 6: 2 submits, 3 GPUs
generate after 20: 2 submits, 3 GPUs`
	if got := strings.Join(labels, "\n"); got != want {
		t.Fatalf("rows\n%s\ninstead of\n%s", got, want)
	}
	for _, c := range []struct {
		row, tokens, heads, positions, read int // positions are those of one layer that are attended to, and read
	}{
		{row: 0, tokens: 9, heads: 1, positions: 9 * 10 / 2, read: 9},
		{row: 1, tokens: 200, heads: 1, positions: 200 * 201 / 2, read: 128 + 200}, // in two passes
		{row: 3, tokens: 1, heads: 1, positions: 4, read: 4},
		{row: 4, tokens: 8, heads: 8, positions: 8 * 4, read: 8 * 4},
		{row: 5, tokens: 1, heads: 1, positions: 21, read: 21},
	} {
		row := &r.Rows[c.row]
		if got, want := row.Int8, c.tokens*matrices; got != want {
			t.Errorf("%s: %d multiply-adds of int8; want %d", row.Label(), got, want)
		}
		byMatrices := 0
		if c.tokens >= device.MatrixTokens {
			byMatrices = row.Int8
		}
		if row.Matrices != byMatrices {
			t.Errorf("%s: %d of %d multiply-adds of int8 are for matrices", row.Label(), row.Matrices, row.Int8)
		}
		if got, want := row.Floats, c.heads*head; got != want {
			t.Errorf("%s: %d multiply-adds of floats; want %d", row.Label(), got, want)
		}
		if got, want := row.Attention, layers*2*c.positions*hidden; got != want {
			t.Errorf("%s: %d multiply-adds of attention; want %d", row.Label(), got, want)
		}
		if got, want := row.CacheWritten, layers*c.tokens*2*kv*4; got != want {
			t.Errorf("%s: %d bytes of KV cache written; want %d", row.Label(), got, want)
		}
		if got, want := row.CacheRead, layers*c.read*2*kv*4; got != want {
			t.Errorf("%s: %d bytes of KV cache read; want %d", row.Label(), got, want)
		}
	}
}

// TestDevicesCaches: a row of a KV cache of another type takes as many bytes as are written of it.
func TestDevicesCaches(t *testing.T) {
	o := quickModel()
	const layers, heads, dim = 6, 2, 32
	for cache, row := range map[engine.CacheType]int{engine.CacheF16: 2 * dim, engine.CacheI8: dim + 4,
		engine.CacheI4: dim/2 + 4} {
		o.Device, o.Cache, o.Prompts, o.Contexts = "vulkan", cache, []int{9}, nil
		r, err := Devices(context.Background(), tiny(t, ""), o)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Rows[0].CacheWritten, 9*layers*2*heads*row; got != want {
			t.Errorf("%s: %d bytes of KV cache written; want %d", cache, got, want)
		}
	}
}

// TestDevicesRefuse: what no device computes is the error that it is on a device.
func TestDevicesRefuse(t *testing.T) {
	o, dir := quickModel(), filepath.Join(t.TempDir(), "model")
	o.Device = "vulkan"
	like, err := synth.Find("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	like.Mini = true
	ck, err := synth.New(like)
	if err == nil {
		err = ck.Write(t.Context(), dir, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = Devices(context.Background(), tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"}), o)
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "experts") {
		t.Error(err)
	}
}

// TestGPUTime: each dispatch takes the longest of what it asks for, and what takes most in all is told.
func TestGPUTime(t *testing.T) {
	g := GPU{Name: "g", Memory: 2 * gib, Bandwidth: 1e6, Int8: 4e6, Float32: 2e6}
	memory := counting.Cost{Weights: 1e6, CacheRead: 1e6, CacheWritten: 5e5, Vectors: 5e5, Int8: 1e6, Attention: 1e6}
	int8s := counting.Cost{Weights: 1e6, Int8: 8e6, Floats: 1e6}
	floats := counting.Cost{Weights: 1e6, Int8: 2e6, Attention: 4e6, Floats: 1e6}
	row := &DeviceRow{Submits: 2, Memory: 2 * gib}
	for _, c := range []struct {
		dispatches []counting.Cost
		seconds    float64
		bound      string
	}{
		{[]counting.Cost{memory}, 3, ByMemory},
		{[]counting.Cost{int8s, memory}, 7, ByInt8},
		{[]counting.Cost{int8s, floats, memory}, 12, ByFloat32},
		{[]counting.Cost{memory, memory, int8s}, 10, ByMemory},
		{[]counting.Cost{{Int8: 2}}, 1e-6, BySubmits},
	} {
		got := g.time(row, c.dispatches, 4)
		if want := c.seconds + 2*SubmitSeconds; got.Seconds != want || got.Bound != c.bound ||
			got.TokensPerSec != 4/want || got.Refused != "" {
			t.Errorf("%+v; want %v by %s", got, want, c.bound)
		}
	}
	row.Memory++
	if got := g.time(row, nil, 4); got.Seconds != 0 || !strings.Contains(got.Refused, "2.0 GiB are needed, of 2 GiB") {
		t.Errorf("%+v", got)
	}
}
