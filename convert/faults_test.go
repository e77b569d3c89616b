package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/pack"
)

// mini writes a miniature checkpoint like a published one.
func mini(t testing.TB, like string, change func(*synth.Options)) string {
	t.Helper()
	o, err := synth.Find(like)
	if err != nil {
		t.Fatal(err)
	}
	o.Mini = true
	if change != nil {
		change(&o)
	}
	c, err := synth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), like)
	if err := c.Write(context.Background(), dir, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fewTensors writes weights without a model: enough for every step of a conversion, few enough to fail each operation.
func fewTensors(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{
		"ternary": bf16([]int64{2, 3}, 0.5, 0, -0.5, 0.5, 0.5, 0),
		"rows":    bf16([]int64{2, 3}, 0.5, 0, -0.5, 2, 2, 0),
		"vector":  bf16([]int64{3}, 1, 2, 3),
	})
	return path
}

// place is a directory with or without an old file at the target.
type place struct{ dir, target, old string }

func newPlace(t testing.TB, old string) place {
	t.Helper()
	p := place{dir: t.TempDir(), old: old}
	p.target = filepath.Join(p.dir, "out.safetensors")
	if old != "" {
		if err := os.WriteFile(p.target, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// untouched demands that the target is unchanged and that no other file is left.
func (p place) untouched(t testing.TB, name string) {
	t.Helper()
	b, err := os.ReadFile(p.target)
	if p.old == "" && err == nil || string(b) != p.old {
		t.Errorf("%s: the target became %.40q", name, b)
	}
	entries, _ := os.ReadDir(p.dir)
	if len(entries) > 1 || len(entries) == 1 && p.old == "" {
		t.Errorf("%s: left behind: %v", name, entries)
	}
}

// TestEveryReadFault fails every read of weights in turn, in the plan and in the run.
func TestEveryReadFault(t *testing.T) {
	for _, path := range []string{mini(t, "bitnet-2b4t", nil), mini(t, "llama3-8b", nil)} {
		for k := int64(0); ; k++ {
			at := newPlace(t, "old")
			p := newPlan(t, path, plain(packed.Recipe{}))
			var n atomic.Int64
			p.read = func(x checkpoint.Tensor, b []byte, off int64) error {
				if n.Add(1) == k+1 {
					return syscall.EIO
				}
				return p.source.ReadAt(x, b, off)
			}
			_, err := p.Run(context.Background(), at.target)
			if n.Load() <= k {
				if err != nil || k < 20 {
					t.Fatalf("%d reads without a fault: %v", n.Load(), err)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("read %d: error %v", k, err)
			}
			at.untouched(t, fmt.Sprintf("read %d", k))
		}
	}
}

// TestCancel cancels at every call of the progress function, and before.
func TestCancel(t *testing.T) {
	path := mini(t, "bitnet-2b4t", nil)
	before := runtime.NumGoroutine()
	cause := errors.New("enough")
	for k := 0; ; k++ {
		ctx, cancel := context.WithCancelCause(context.Background())
		if k == 0 {
			cancel(cause)
		}
		at, calls := newPlace(t, "old"), 0
		o := plain(packed.Recipe{})
		o.Progress = func(string, int64, int64) {
			if calls++; calls == k {
				cancel(cause)
			}
		}
		_, err := newPlan(t, path, o).Run(ctx, at.target)
		cancel(nil)
		if calls < k {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, cause) {
			t.Errorf("cancelled at call %d of %d: %v", k, calls, err)
		}
		at.untouched(t, fmt.Sprintf("call %d", k))
	}
	wait.Goroutines(t, before)
}

// TestTargetIsSource tries every way to name the source as the target.
func TestTargetIsSource(t *testing.T) {
	dir := mini(t, "bitnet-2b4t", nil)
	weights := filepath.Join(dir, "model.safetensors")
	beside := t.TempDir()
	hard, soft, into := filepath.Join(beside, "hard"), filepath.Join(beside, "soft"), filepath.Join(beside, "into")
	if err := errors.Join(os.Link(weights, hard), os.Symlink(weights, soft), os.Symlink(dir, into)); err != nil {
		t.Skip(err)
	}
	was, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	for source, targets := range map[string][]string{
		dir: {weights, hard, soft, filepath.Join(dir, "new"), filepath.Join(into, "new"),
			filepath.Join(dir, "config.json")},
		into:    {weights, hard, filepath.Join(dir, "new")},
		weights: {weights, hard, soft},
	} {
		for _, target := range targets {
			_, err := newPlan(t, source, plain(packed.Recipe{AllowLossy: true})).Run(context.Background(), target)
			if !errors.Is(err, pack.ErrUnsupported) {
				t.Errorf("%s to %s: %v", source, target, err)
			}
		}
	}
	if now, err := os.ReadFile(weights); err != nil || !slices.Equal(was, now) {
		t.Error("the source was changed")
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("there is a new file in the checkpoint")
	}
}

// TestTwoConverters lets two conversions write the same target; each of them leaves it complete.
func TestTwoConverters(t *testing.T) {
	path, at := mini(t, "bitnet-2b4t", nil), newPlace(t, "old")
	a, b := newPlan(t, path, plain(packed.Recipe{})), newPlan(t, path, plain(packed.Recipe{Layout: "i1"}))
	err := parallel.Each(context.Background(), 2, 2, func(_, i int) error {
		_, err := []*Plan{a, b}[i].Run(context.Background(), at.target)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := packed.Open(at.target)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checkDigests(t, f)
	if entries, _ := os.ReadDir(at.dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
