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
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// run converts and returns the path of the packed file.
func converted(t testing.TB, path string, r packed.Recipe) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "converted.safetensors")
	if _, err := newPlan(t, path, Options{Recipe: r}).Run(context.Background(), target); err != nil {
		t.Fatal(err)
	}
	return target
}

// TestRepack compares a change of layout with a conversion to that layout, byte for byte, for every layout that holds
// the codes.
func TestRepack(t *testing.T) {
	type change struct {
		path   string
		recipe packed.Recipe
		least  int // layouts
	}
	for _, c := range race.Few(1, []change{
		{mini(t, "bitnet-2b4t", nil), packed.Recipe{Layout: "vnni4i"}, 10},
		{mini(t, "falcon3-1b", nil), packed.Recipe{Layout: "i1", Golden: "kernel"}, 10},
		{mini(t, "trilm-99m", nil), packed.Recipe{Layout: "blocked", Quant: "ternary-values", Head: "int8"}, 10},
		{mini(t, "paretoq-125m-2bit", nil), packed.Recipe{Layout: "vnni4i-64", Quant: "int2-values"}, 3},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Layout: "vnni4", Quant: "int8", Scale: "group:32"}, 2},
	}) {
		from := converted(t, c.path, c.recipe)
		done := 0
		for _, l := range pack.Layouts() {
			target := filepath.Join(t.TempDir(), "repacked.safetensors")
			_, err := Repack(context.Background(), from, target, RepackOptions{Layout: l.Name})
			r := c.recipe
			r.Layout = l.Name
			p, errPlan := NewPlan(context.Background(), c.path, Options{Recipe: r})
			if (err == nil) != (errPlan == nil) {
				t.Errorf("%s to %s: repack %v, convert %v", c.path, l.Name, err, errPlan)
				continue
			}
			if err != nil {
				if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), l.Name) {
					t.Errorf("%s to %s: %v", c.path, l.Name, err)
				}
				continue
			}
			done++
			direct := filepath.Join(t.TempDir(), "direct.safetensors")
			if _, err := p.Run(context.Background(), direct); err != nil {
				t.Fatal(err)
			}
			p.Close()
			a, errA := os.ReadFile(target)
			b, errB := os.ReadFile(direct)
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("%s to %s: repacked and converted files differ", c.path, l.Name)
			}
		}
		if done < c.least {
			t.Errorf("%s: only %d layouts hold it", c.path, done)
		}
	}
}

// TestRepackDamaged flips a bit in every tensor of a packed file; every flip is detected.
func TestRepackDamaged(t *testing.T) {
	from := converted(t, mini(t, "bitnet-2b4t", nil), packed.Recipe{})
	f, err := packed.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	data := f.Size()
	for _, info := range f.Tensors() {
		s, _ := f.Section(info.Name)
		data -= s.Size()
	}
	infos := f.Tensors()
	f.Close()
	good, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	off := data
	for _, info := range infos {
		size := int64(1)
		for _, n := range info.Shape {
			size *= int64(n)
		}
		size *= map[safetensors.DType]int64{"U8": 1, "BF16": 2, "F32": 4}[info.DType]
		b := bytes.Clone(good)
		b[off+size/2] ^= 0x10
		off += size
		broken := filepath.Join(t.TempDir(), "broken.safetensors")
		if err := os.WriteFile(broken, b, 0o644); err != nil {
			t.Fatal(err)
		}
		at := newPlace(t, "old")
		_, err := Repack(context.Background(), broken, at.target, RepackOptions{Layout: "i2"})
		if name := strings.TrimSuffix(info.Name, packed.PackedSuffix); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("a flip in %s: %v", info.Name, err)
		}
		at.untouched(t, info.Name)
	}
	if off != int64(len(good)) {
		t.Errorf("%d of %d bytes were seen", off, len(good))
	}
}

func TestRepackTargets(t *testing.T) {
	from := converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{Golden: "none"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Link(from, link); err != nil {
		t.Skip(err)
	}
	for _, target := range []string{from, link} {
		if _, err := Repack(context.Background(), from, target, RepackOptions{Layout: "i2"}); !errors.Is(err,
			pack.ErrUnsupported) {
			t.Errorf("to itself: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	at, calls := newPlace(t, "old"), 0
	_, err := Repack(ctx, from, at.target, RepackOptions{Layout: "i2", Progress: func(string, int64, int64) {
		if calls++; calls == 10 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	at.untouched(t, fmt.Sprint("cancelled after ", calls, " calls"))
}

// TestRepackScales: a scale that is not a number is refused, also where every digest is right.
func TestRepackScales(t *testing.T) {
	from, forged := converted(t, mini(t, "bitnet-2b4t", nil), packed.Recipe{Golden: "none"}), filepath.Join(t.TempDir(),
		"forged.safetensors")
	f, err := packed.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := f.Manifest()
	w, err := packed.Create(forged, packed.Contents{Manifest: *m})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	names := []string{}
	for _, e := range m.Packed {
		names = append(names, e.Name+packed.PackedSuffix, e.Name+packed.ScaleSuffix)
	}
	for _, p := range m.Plain {
		names = append(names, p.Name)
	}
	for _, name := range names {
		tensor, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(tensor.Data)
		if name == m.Packed[0].Name+packed.ScaleSuffix {
			binary.LittleEndian.PutUint32(data, math.Float32bits(float32(math.NaN())))
		}
		if err := w.WriteTensor(name, data); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range m.Packed {
		w.Manifest().Packed[i].CodesSHA = e.CodesSHA
	}
	for i, s := range m.Sources {
		w.Manifest().Sources[i].SHA256 = s.SHA256
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "repacked.safetensors")
	_, err = Repack(context.Background(), forged, target, RepackOptions{Layout: "i2s"})
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), m.Packed[0].Name) {
		t.Errorf("%v", err)
	}
}

// TestSummaries: every way to the same file counts the same tensors.
func TestSummaries(t *testing.T) {
	for _, name := range []string{"../testdata/tiny-bitnet", "../testdata/tiny-bitnet-packed"} {
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
		p, err := NewPlan(context.Background(), name, Options{Recipe: packed.Recipe{Golden: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		a, err := p.Run(context.Background(), one)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Repack(context.Background(), one, two, RepackOptions{Layout: DefaultLayout})
		if err != nil || a.Tensors != b.Tensors || a.Quantized != b.Quantized {
			t.Errorf("%s: convert %d of %d, repack %+v, %v", name, a.Quantized, a.Tensors, b, err)
		}
	}
}
