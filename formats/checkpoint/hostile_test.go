package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/pack"
)

// sentinel is the error wrapped for each class of the corpus.
func sentinel(c hostile.Class) error {
	switch c {
	case hostile.Accept:
		return nil
	case hostile.Limit:
		return pack.ErrLimit
	case hostile.Unsupported:
		return pack.ErrUnsupported
	}
	return pack.ErrCorrupt
}

// build writes a case; it skips pipes where the system has none.
func build(t *testing.T, c *hostile.Case) string {
	t.Helper()
	path, err := c.Build(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll opens a checkpoint, reads everything and calls Unchanged.
func readAll(path string, during func(path string) error) (*Checkpoint, error) {
	c, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if during != nil {
		if err := during(path); err != nil {
			return nil, err
		}
	}
	for _, x := range c.Tensors() {
		if err := c.ReadAt(x, make([]byte, x.Size), 0); err != nil {
			return nil, err
		}
	}
	return c, c.Unchanged()
}

// own reports whether this package decides a case. The others are valid checkpoints with faults in config, tokenizer or
// weights.
func own(c *hostile.Case) bool {
	switch c.Group {
	case hostile.Container:
		return !strings.HasPrefix(c.ID, "S34")
	case hostile.Directory:
		return true
	case hostile.Packed: // for this package an ordinary safetensors file
		return c.Rule == "F1–F5"
	}
	return c.ID == "C06"
}

// hang is the limit of processor time per case; command-line tests check that a command takes less than a second.
const hang = 20 * time.Second

// TestHostile: every case of the corpus gets its verdict, without hanging.
func TestHostile(t *testing.T) {
	for _, c := range hostile.Cases() {
		t.Run(c.ID, func(t *testing.T) {
			path := build(t, &c)
			want := sentinel(c.Class)
			switch {
			case own(&c):
			case c.Group == hostile.Packed:
				want = pack.ErrUnsupported // intact, but not a checkpoint
			default:
				want = nil
			}
			files := openFiles(t)
			var err error
			cpu.Within(t, hang, c.ID, func() { _, err = readAll(path, c.During) })
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", c.Note, err, want)
			}
			if now := openFiles(t); now != files {
				t.Errorf("%d files are open, before it were %d", now, files)
			}
			t.Logf("%s: %v", c.Note, err)
		})
	}
}

// openFiles returns the number of open files of this process, if the system reports it.
func openFiles(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func caseOf(t *testing.T, id string) *hostile.Case {
	t.Helper()
	for _, c := range hostile.Cases() {
		if c.ID == id {
			return &c
		}
	}
	t.Fatalf("no case %s", id)
	return nil
}

// TestMessages: errors name file, tensor, fault and remedy.
func TestMessages(t *testing.T) {
	for id, parts := range map[string][]string{
		"D01":  {indexFile, `"../x.safetensors"`, "next to the index"},
		"D03":  {"model.safetensors", "symbolic link", "replace it by the file"},
		"D04a": {"model.safetensors", "not a regular file"},
		"D05a": {indexFile, "occurs twice"},
		"D05b": {`"model.extra.weight"`, "model-00001-of-00002.safetensors", "does not hold it"},
		"D05c": {"model-00001-of-00002.safetensors", "not in " + indexFile},
		"D05e": {"model-00003-of-00003.safetensors is missing"},
		"D08":  {"pytorch_model.bin", "run code", "safe_serialization=True"},
		"C06":  {"config.json", "1073741824", "4194304"},
		"S23":  {"model.safetensors", `tensor "b"`, "hole"},
	} {
		_, err := readAll(build(t, caseOf(t, id)), nil)
		if err == nil {
			t.Errorf("%s: accepted", id)
			continue
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%s: %q does not say %q", id, err, p)
			}
		}
	}
}

// TestOtherFormats: the error for another format names it, and says what a checkpoint is.
func TestOtherFormats(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.gguf"), []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{dir: "name the file itself",
		filepath.Join(dir, "model.gguf"): "truncated",
		filepath.Join(dir, "org/name"):   "on the hub"} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestCaseFolding: shards whose names differ in case only cause a warning.
func TestCaseFolding(t *testing.T) {
	c, err := readAll(build(t, caseOf(t, "D07")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Details(); len(w) != 1 || !strings.Contains(w[0], "case only") {
		t.Errorf("%q", w)
	}
}

// TestSnapshot: a snapshot of the download cache opens by its directory, by a link to it, and by one of its files.
func TestSnapshot(t *testing.T) {
	path := build(t, caseOf(t, "D00c"))
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(path, alias); err != nil {
		t.Skip(err)
	}
	for _, p := range []string{path, path + string(filepath.Separator), alias} {
		c, err := readAll(p, nil)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if _, ok := c.File("tokenizer.json"); !ok || len(c.Config()) == 0 {
			t.Error("config.json or tokenizer.json was not found")
		}
	}
	c, err := readAll(filepath.Join(path, "model.safetensors"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Sources(); len(got) != 1 || got[0].Name != "model.safetensors" || c.Config() != nil {
		t.Errorf("sources %v, config %q", got, c.Config())
	}
}

// TestSharedBlobs: a snapshot opens whose blobs are links to blobs shared by all models of a cache; links out of the
// cache are rejected.
func TestSharedBlobs(t *testing.T) {
	snapshot := build(t, caseOf(t, "D00c"))
	entry := filepath.Dir(filepath.Dir(snapshot))
	cache := filepath.Dir(entry)
	if !strings.HasPrefix(filepath.Base(entry), "models--") {
		t.Fatalf("%s is not of a cache", entry)
	}
	blob, err := filepath.EvalSymlinks(filepath.Join(snapshot, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	move := func(to string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		real, err := filepath.EvalSymlinks(blob)
		if err == nil {
			err = os.Rename(real, to)
		}
		os.Remove(blob) // a dangling link
		if err == nil {
			err = os.Symlink(to, blob)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shared := filepath.Join(cache, "blobs", "ab", "abcd")
	move(shared)
	if relative, err := filepath.Rel(filepath.Dir(blob), shared); err != nil || os.Remove(blob) != nil ||
		os.Symlink(relative, blob) != nil {
		t.Fatal(err)
	}
	if _, err := readAll(snapshot, nil); err != nil {
		t.Error(err)
	}
	move(filepath.Join(t.TempDir(), "elsewhere"))
	if _, err := readAll(snapshot, nil); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "symbolic link out of") {
		t.Errorf("%v", err)
	}
}

// TestShards: two shards form one model, and a wrong total_size, in any spelling, causes a warning.
func TestShards(t *testing.T) {
	path := build(t, caseOf(t, "D00b"))
	one, err := readAll(build(t, caseOf(t, "D00a")), nil)
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(path, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, x := range one.Tensors() {
		total += x.Size
	}
	sizes := map[string]bool{itoa(total): true, itoa(total) + ".0": true, "1e3": false, "-4": false, "1": false,
		"0.5": false}
	for spelling, right := range sizes {
		text := strings.Replace(string(index), "{",
			`{"metadata":{"total_parameters":[1,{"a":null}],"total_size":`+spelling+`},`, 1)
		if err := os.WriteFile(filepath.Join(path, indexFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := readAll(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (len(c.Details()) == 0) != right {
			t.Errorf("total_size %s: details %q", spelling, c.Details())
		}
		if !slices.EqualFunc(c.Tensors(), one.Tensors(),
			func(a, b Tensor) bool { return a.Name == b.Name && a.Size == b.Size }) {
			t.Error("the shards hold other tensors than the single file")
		}
	}
}
