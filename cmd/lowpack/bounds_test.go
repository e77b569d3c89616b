package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// sparse makes a large file that takes no disk space.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big.txt")
	f, err := os.Create(path)
	if err == nil {
		err = f.Truncate(size)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBounds: excessive sizes are reported as wrong usage, at once and in little memory.
func TestBounds(t *testing.T) {
	t.Parallel()
	const model = "../../testdata/tiny-bitnet"
	big, out := sparse(t, 5<<30), filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"convert", model, "-o", out, "--jobs", "1000000"},
		{"convert", model, "-o", out, "--threads", "1000000000000"},
		{"repack", model, "--layout", "i2s", "-o", out, "--jobs", "1025"},
		{"unpack", model, "-o", out, "--jobs", "1000000"},
		{"verify", model, "--threads", "1000000"},
		{"run", model, "-p", "x", "--threads", "1000000"},
		{"run", model, "-p", "x", "--context", "1000000000"},
		{"run", model, "-p", "x", "-n", "1000000000"},
		{"run", model, "--file", big},
		{"tokenize", model, "--file", big},
		{"eval", model, "--text", big},
		{"eval", model, "--text", big, "--window", "1000000000"},
		{"bench", model, "--batch", "1000000"},
		{"bench", model, "--threads", "1,1000000"},
		{"bench", model, "--context", "1000000000000"},
		{"bench", "kernels", "--tokens", "1000000000"},
		{"bench", "kernels", "--shape", "16777216x16777216", "--tokens", "1"},
		{"bench", "kernels", "--shape", "65536x32768", "--tokens", "1,65536"},
		{"synth", "--like", "bitnet-2b4t", "-o", out, "--shards", "1000000000"},
		{"convert", model, "-o", out, "--part", "1/1000000000000"},
	} {
		o := command(t, args...)
		crashed := strings.Contains(o.out, "goroutine ") // which has exit code 2 as well
		if o.code != 2 || crashed || o.memory > 48<<20 {
			t.Errorf("%q: exit code %d, %d MiB\n%s", args, o.code, o.memory>>20, o.out)
		}
	}
}

// TestBoundedFiles: a file that is too large for its kind is bad input, and is not read to its end.
func TestBoundedFiles(t *testing.T) {
	t.Parallel()
	const model = "../../testdata/tiny-bitnet"
	big, packed := sparse(t, 5<<30), tinymodel.Path(t)
	for _, args := range [][]string{
		{"convert", model, "-o", filepath.Join(t.TempDir(), "out"), "--recipe", big},
		{"run", packed, "--chat", "--chat-template", big},
		{"verify", packed, "--provenance", big},
	} {
		o := command(t, args...)
		if o.code != 1 || !strings.Contains(o.out, "limit exceeded") || o.memory > maxMemory {
			t.Errorf("%q: exit code %d, %d MiB\n%s", args, o.code, o.memory>>20, o.out)
		}
	}
}

// TestBoundedInput: standard input is read to the bound, not to its end.
func TestBoundedInput(t *testing.T) {
	var notes strings.Builder
	const model = "../../testdata/tiny-bitnet"
	if code := Main([]string{"lowpack", "tokenize", model}, endless{}, &notes, &notes); code != 2 ||
		!strings.Contains(notes.String(), "standard input is longer than 16 MiB") {
		t.Errorf("exit code %d\n%s", code, &notes)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
