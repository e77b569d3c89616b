package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// digest of a file; the target must be alone in its directory.
func digestAlone(t testing.TB, at place) [32]byte {
	t.Helper()
	b, err := os.ReadFile(at.target)
	if err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(at.dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	return sha256.Sum256(b)
}

// once is the digest of a conversion in one piece.
func once(t testing.TB, path string, o Options) [32]byte {
	t.Helper()
	at := newPlace(t, "")
	if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err != nil {
		t.Fatal(err)
	}
	return digestAlone(t, at)
}

// TestResume interrupts conversions at every call of the progress function and continues them: of codes, and of weights
// of 4 and 8 bits that become floats.
func TestResume(t *testing.T) {
	for name, path := range map[string]string{
		"bitnet": mini(t, "bitnet-2b4t", nil),
		"nf4":    shared.Path(t, "data/packed/bnb-nf4-double"),
		"fp8":    shared.Path(t, "data/packed/ct-float-fp8-block"),
	} {
		t.Run(name, func(t *testing.T) { resumeEverywhere(t, path) })
	}
}

func resumeEverywhere(t *testing.T, path string) {
	o := Options{Recipe: packed.Recipe{Golden: "kernel"}}
	want := once(t, path, o)
	o.Resume = true
	for k := 1; ; k++ {
		at, calls := newPlace(t, "old"), 0
		ctx, cancel := context.WithCancel(context.Background())
		o.Progress = func(string, int64, int64) {
			if calls++; calls == k {
				cancel()
			}
		}
		_, err := newPlan(t, path, o).Run(ctx, at.target)
		cancel()
		if calls < k {
			break
		}
		if b, _ := os.ReadFile(at.target); err == nil || string(b) != "old" {
			t.Fatalf("call %d: %v; the target became %.20q", k, err, b)
		}
		o.Progress = nil
		if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err != nil {
			t.Fatal(err)
		}
		if digestAlone(t, at) != want {
			t.Errorf("call %d: other bytes after it was resumed", k)
		}
	}
}

// interrupted leaves a conversion that is about half done.
func interrupted(t testing.TB, path string, o Options) place {
	t.Helper()
	at := newPlace(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(_ string, done, total int64) {
		if done > total/2 {
			cancel()
		}
	}
	_, err := newPlan(t, path, o).Run(ctx, at.target)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return at
}

// TestResumeDistrusts changes the partial state of an interrupted conversion, or its input: the result is right all the
// same.
func TestResumeDistrusts(t *testing.T) {
	path := mini(t, "bitnet-2b4t-bf16", nil)
	o := plain(packed.Recipe{})
	o.Resume, o.Threads = true, 1
	other := o
	other.Recipe.Layout = "i2"
	for what, change := range map[string]func(at place) Options{
		"nothing": func(place) Options { return o },
		"data": func(at place) Options {
			b, _ := os.ReadFile(atomicfile.ResumePath(at.target))
			for i := range b {
				b[i] ^= byte(i)
			}
			os.WriteFile(atomicfile.ResumePath(at.target), b, 0o644)
			return o
		},
		"data cut": func(at place) Options { os.Truncate(atomicfile.ResumePath(at.target), 5000); return o },
		"data gone": func(at place) Options {
			os.Remove(atomicfile.ResumePath(at.target))
			return o
		},
		"journal cut": func(at place) Options {
			b, _ := os.ReadFile(JournalPath(at.target))
			os.WriteFile(JournalPath(at.target), b[:len(b)*2/3], 0o644)
			return o
		},
		"journal of nonsense": func(at place) Options {
			os.WriteFile(JournalPath(at.target), bytes.Repeat([]byte("{}\n"), 100), 0o644)
			return o
		},
		"journal gone":   func(at place) Options { os.Remove(JournalPath(at.target)); return o },
		"another layout": func(place) Options { return other },
		"not resumed":    func(place) Options { return plain(packed.Recipe{}) },
		"source": func(place) Options {
			edit(t, path, func(m map[string]raw) { m[down] = set16(m[down], 5, 0x4000) })
			return o
		},
	} {
		at := interrupted(t, path, o)
		again := change(at)
		if _, err := newPlan(t, path, again).Run(context.Background(), at.target); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		again.Resume = false
		if digestAlone(t, at) != once(t, path, again) {
			t.Errorf("%s: other bytes than in one piece", what)
		}
	}
}

// TestResumeSeesTime changes, in a source file of unchanged size, a tensor that is already finished: the modification
// time reveals it.
func TestResumeSeesTime(t *testing.T) {
	path := mini(t, "bitnet-2b4t-bf16", nil)
	o := plain(packed.Recipe{})
	unchanged := once(t, path, o)
	o.Resume, o.Threads = true, 1
	at := interrupted(t, path, o)
	overwrite(t, path, firstFinished(t, at))
	if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err != nil {
		t.Fatal(err)
	}
	o.Resume = false
	got, want := digestAlone(t, at), once(t, path, o)
	if want == unchanged {
		t.Fatal("the change makes no difference")
	}
	if got != want {
		t.Error("a tensor that was changed since is taken over")
	}
}

// firstFinished is a quantized tensor that the journal notes.
func firstFinished(t testing.TB, at place) string {
	t.Helper()
	text, err := os.ReadFile(JournalPath(at.target))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var n note
		if json.Unmarshal(line, &n) == nil {
			if name, ok := strings.CutSuffix(n.Tensor, packed.PackedSuffix); ok {
				return name
			}
		}
	}
	t.Fatalf("no tensor is finished:\n%s", text)
	return ""
}

// overwrite changes an element of a BF16 tensor in place, and the modification time of the file.
func overwrite(t testing.TB, dir, name string) {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := c.Lookup(name)
	c.Close()
	path := filepath.Join(dir, x.File)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0, 0x40}, x.Begin); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
}

// TestResumeFollowsNoLink: a foreign file or link in the place of the unfinished file or its journal is refused, not
// overwritten.
func TestResumeFollowsNoLink(t *testing.T) {
	path := fewTensors(t)
	o := plain(packed.Recipe{})
	o.Resume = true
	for _, hidden := range []func(string) string{atomicfile.ResumePath, JournalPath} {
		at := newPlace(t, "old")
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, hidden(at.target)); err != nil {
			t.Skip(err)
		}
		_, err := newPlan(t, path, o).Run(context.Background(), at.target)
		if err == nil || !strings.Contains(err.Error(), hidden(at.target)) {
			t.Errorf("%s is a link: %v", hidden("target"), err)
		}
		if got := written(victim); got != "precious" || written(at.target) != "old" {
			t.Errorf("%s is a link: the file behind it became %.20q", hidden("target"), got)
		}
	}
}

// TestResumeSkips counts reads: finished tensors are not read again.
func TestResumeSkips(t *testing.T) {
	path := mini(t, "bitnet-2b4t-bf16", nil)
	o := plain(packed.Recipe{})
	o.Resume, o.Threads = true, 1
	count := func(at place) int64 {
		var n atomic.Int64 // quantized and passthrough tensors are read at the same time
		p := newPlan(t, path, o)
		p.read = func(x checkpoint.Tensor, b []byte, off int64) error {
			n.Add(int64(len(b)))
			return p.source.ReadAt(x, b, off)
		}
		if _, err := p.Run(context.Background(), at.target); err != nil {
			t.Fatal(err)
		}
		return n.Load()
	}
	whole, rest := count(newPlace(t, "")), count(interrupted(t, path, o))
	if rest == 0 || rest > whole*3/4 {
		t.Errorf("%d bytes are read after half was done, %d by a whole conversion", rest, whole)
	}
}

// TestResumeTwice: two processes cannot work on the same unfinished file.
func TestResumeTwice(t *testing.T) {
	path, at := mini(t, "bitnet-2b4t", nil), newPlace(t, "")
	f, err := atomicfile.Resume(atomicfile.OS, at.target)
	if err != nil {
		t.Fatal(err)
	}
	o := plain(packed.Recipe{})
	o.Resume = true
	if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err == nil {
		t.Error("two writers on one file")
	}
	f.Abort()
	if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err != nil {
		t.Error(err)
	}
	digestAlone(t, at)
}

// parts converts in n parts and returns their paths.
func parts(t testing.TB, path string, o Options, n int) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i := 1; i <= n; i++ {
		o.Part, o.Parts = i, n
		target := filepath.Join(dir, fmt.Sprintf("part-%d.safetensors", i))
		if _, err := newPlan(t, path, o).Run(context.Background(), target); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, target)
	}
	return paths
}

// TestMerge joins parts to the bytes of a conversion in one piece.
func TestMerge(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, bare, map[string]raw{"w": bf16([]int64{2, 2}, 1, 0, -1, 0), "v": bf16([]int64{2}, 1, 2)})
	for path, recipe := range map[string]packed.Recipe{
		mini(t, "bitnet-2b4t", nil):  {},
		mini(t, "llama-3.2-1b", nil): {Head: "int8", Golden: "kernel"},
		bare:                         {},
	} {
		o := Options{Recipe: recipe}
		want := once(t, path, o)
		for _, n := range []int{1, 2, 3, 100} {
			at := newPlace(t, "old")
			s, err := Merge(context.Background(), parts(t, path, o, n), at.target, MergeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if digestAlone(t, at) != want || s.BytesOut == 0 {
				t.Errorf("%s: %d parts give other bytes", path, n)
			}
		}
	}
}

func TestMergeRefusals(t *testing.T) {
	path := mini(t, "bitnet-2b4t", nil)
	o := plain(packed.Recipe{})
	good, others := parts(t, path, o, 3), parts(t, path, plain(packed.Recipe{Layout: "i1"}), 3)
	two := parts(t, path, o, 2)
	whole := newPlace(t, "")
	if _, err := newPlan(t, path, o).Run(context.Background(), whole.target); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(good[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for what, paths := range map[string][]string{
		"no parts":            nil,
		"a missing part":      {good[0], good[2]},
		"a part twice":        {good[0], good[0], good[1], good[2]},
		"of another layout":   {good[0], good[1], others[2]},
		"of another division": {good[0], good[1], good[2], two[1]},
		"a whole file":        {good[0], good[1], whole.target},
		"a damaged part":      {good[0], broken, good[2]},
	} {
		at := newPlace(t, "old")
		_, err := Merge(context.Background(), paths, at.target, MergeOptions{})
		if !errors.Is(err, pack.ErrUnsupported) &&
			!errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		at.untouched(t, what)
	}
	for _, o := range []Options{{Part: 1}, {Part: 0, Parts: 2}, {Part: 3, Parts: 2}, {Part: 1, Parts: -1},
		{Part: 1, Parts: 1 << 20}, {Part: 1, Parts: 1, Report: true}} {
		if p, err := NewPlan(context.Background(), path, o); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
			if p != nil {
				p.Close()
			}
		}
	}
}

// TestPartFlips flips every bit of the header of a part, which is detected on opening, and some bits of its data.
func TestPartFlips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{"w": bf16([]int64{2, 2}, 1, 0, -1, 0), "v": bf16([]int64{2}, 1, 2)})
	all := parts(t, path, plain(packed.Recipe{}), 1)
	good, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(all[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	header := 8 + int(binary.LittleEndian.Uint64(good))
	for bit := 0; bit < len(good)*8; bit += race.Every(59) {
		if bit >= header*8 && bit%61 != 0 {
			continue
		}
		file.WriteAt([]byte{good[bit/8] ^ 1<<(bit%8)}, int64(bit/8))
		if p, err := packed.OpenPart(all[0]); err == nil {
			p.Close()
			at := newPlace(t, "old")
			if _, err := Merge(context.Background(), all, at.target, MergeOptions{}); bit < header*8 ||
				!errors.Is(err, pack.ErrCorrupt) {
				t.Fatalf("bit %d: %v …%q…", bit, err, good[max(0, bit/8-20):min(len(good), bit/8+20)])
			}
			at.untouched(t, fmt.Sprint("bit ", bit))
		}
		file.WriteAt(good[bit/8:bit/8+1], int64(bit/8))
	}
}

// TestMergeChecksCodes: a digest that does not match the codes is detected, although the header's digest is right.
func TestMergeChecksCodes(t *testing.T) {
	all := parts(t, mini(t, "bitnet-2b4t", nil), plain(packed.Recipe{}), 2)
	p, err := packed.OpenPart(all[1])
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for i := range p.Tensors {
		if c := []byte(p.Tensors[i].Codes); len(c) > 0 {
			c[0] ^= 1
			reseal(t, all[1], p.Tensors[i].Codes, string(c))
			break
		}
	}
	at := newPlace(t, "old")
	_, err = Merge(context.Background(), all, at.target, MergeOptions{})
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), all[1]) ||
		!strings.Contains(err.Error(), "codes_sha256") {
		t.Errorf("a forged digest of codes: %v", err)
	}
}

// reseal replaces a text in the description of a part, and updates its digest.
func reseal(t *testing.T, path, from, to string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	text := h.Metadata[1].Value
	digest := func(s string) []byte { return fmt.Appendf(nil, "%x", sha256.Sum256([]byte(s))) }
	b = bytes.Replace(b, []byte(from), []byte(to), 1)
	b = bytes.Replace(b, digest(text), digest(strings.Replace(text, from, to, 1)), 1)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := packed.OpenPart(path); err != nil {
		t.Fatal(err)
	} else {
		p.Close()
	}
}
