package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/internal/testkit/shared"
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

// table formats tensors like the corpus.
func table(h *Header) (rows []string) {
	for _, t := range h.Tensors {
		rows = append(rows, fmt.Sprintf("%s %s %v [%d, %d)", t.Name, t.DType, t.Shape, t.Begin, t.End))
	}
	return rows
}

func parseFile(t testing.TB, path string) (*Header, error) {
	t.Helper()
	f, size := openFile(t, path)
	defer f.Close()
	return Parse(f, size)
}

func openFile(t testing.TB, path string) (f *os.File, size int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return f, info.Size()
}

// TestHostile: every file of the corpus gets its verdict, in bounded time and memory. NaN and infinity (S34) are valid
// in safetensors; the quantizer rejects them.
func TestHostile(t *testing.T) {
	for _, c := range hostile.In(hostile.Container) {
		path, err := c.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want := sentinel(c.Class)
		if strings.HasPrefix(c.ID, "S34") {
			want = nil
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var h *Header
		took := cpu.Within(t, 20*time.Second, c.ID, func() { h, err = parseFile(t, path) })
		runtime.ReadMemStats(&after)
		if !errors.Is(err, want) {
			t.Errorf("%s (%s): %v, want %v", c.ID, c.Note, err, want)
		}
		if c.Table != nil && (err != nil || !slices.Equal(table(h), c.Table)) {
			t.Errorf("%s (%s): %v, want %v", c.ID, c.Note, table(h), c.Table)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 48<<20 {
			t.Errorf("%s: %d bytes were allocated", c.ID, n)
		}
		t.Logf("%-5s %8v %6d KiB  %v", c.ID, took.Round(time.Microsecond),
			(after.TotalAlloc-before.TotalAlloc)>>10, err)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// counter counts the bytes read.
type counter struct {
	io.ReaderAt
	read int64
}

func (c *counter) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.read += int64(n)
	return n, err
}

// TestMillionsOfDimensions is S20 with figures: rejected before a hundredth is read, with no allocation but a buffer.
func TestMillionsOfDimensions(t *testing.T) {
	for _, c := range hostile.In(hostile.Container) {
		if c.ID != "S20" {
			continue
		}
		path, err := c.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		f, size := openFile(t, path)
		defer f.Close()
		var before, after runtime.MemStats
		seen := &counter{ReaderAt: f}
		runtime.ReadMemStats(&before)
		_, err = Parse(seen, size)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, pack.ErrLimit) || seen.read > size/100 ||
			used > 256<<10 {
			t.Errorf("%v after %d bytes of %d, %d allocated", err, seen.read, size, used)
		}
	}
}

// TestUpstreamFiles runs the hostile files of other projects. The reference accepts one that is rejected here: white
// space other than spaces after the JSON, which the format does not allow.
func TestUpstreamFiles(t *testing.T) {
	dir := shared.Path(t, "data/hostile/safetensors")
	text, err := os.ReadFile(filepath.Join(dir, "MANIFEST.json"))
	if err != nil {
		t.Fatal(err)
	}
	var files []struct{ File, Expect string }
	if err := json.Unmarshal(text, &files); err != nil {
		t.Fatal(err)
	}
	if len(files) != 13 {
		t.Errorf("%d files, want 13", len(files))
	}
	for _, f := range files {
		_, err := parseFile(t, filepath.Join(dir, f.File))
		want := f.Expect == "accept" && f.File != "test_whitespace_padded_header.safetensors"
		if (err == nil) != want {
			t.Errorf("%s: %v, want accepted = %v", f.File, err, want)
		}
	}
}

// failing is a disk that fails after some bytes.
type failing struct {
	io.ReaderAt
	after int64
}

var errDisk = errors.New("the disk broke")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.after {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestReadErrors: disk errors are passed on as such, not as corruption.
func TestReadErrors(t *testing.T) {
	path := shared.Testdata(t, "tiny-bitnet/model.safetensors")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, after := range []int64{0, 8, 4096} {
		if _, err := Parse(failing{f, after}, 9642712); !errors.Is(err, errDisk) || errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}
