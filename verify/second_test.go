package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// twoMatrices writes a checkpoint of two matrices and a vector, and returns its path and the data. The last matrix has
// the data that a reader would see which is off by that many bytes.
func twoMatrices(t *testing.T, off int) string {
	t.Helper()
	list := []safetensors.TensorInfo{
		{Name: "a", DType: safetensors.F32, Shape: []int64{16, 32}},
		{Name: "b", DType: safetensors.F32, Shape: []int64{16, 32}},
		{Name: "c", DType: safetensors.F32, Shape: []int64{7}},
	}
	if err := safetensors.Place(list); err != nil {
		t.Fatal(err)
	}
	var data []byte
	for i := range list[2].End / 4 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Sin(float64(i)))))
	}
	seen := bytes.Clone(data)
	for _, x := range list[1:] {
		copy(seen[x.Begin:x.End], data[x.Begin+int64(off):])
	}
	header, err := safetensors.AppendHeader(nil, nil, list, 8)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	write(t, path, append(header, seen...))
	return path
}

// against compares a packed file with a checkpoint whose first reader was changed.
func against(t *testing.T, path, source string, change func(*checkpoint.Checkpoint)) *Report {
	t.Helper()
	s := begin(context.Background(), path, Options{Level: Source, Source: source, Threads: 2}, Source)
	defer s.close()
	if err := s.checkFile(); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	change(c)
	if err := s.compareWith(c); err != nil {
		t.Fatal(err)
	}
	return s.report
}

// TestSecondReader: a first reader whose offsets are off by one element converts other weights, and believes them when
// it reads the checkpoint again. The second reader does not. "b" is quantized and "c" is kept.
func TestSecondReader(t *testing.T) {
	source := twoMatrices(t, 0)
	recipe := packed.Recipe{Quant: "int8", Scale: "row", Layout: "vnni4", Golden: "none", AllowLossy: true}
	good := against(t, tinymodel.Converted(t, source, recipe), source, func(*checkpoint.Checkpoint) {})
	if !good.OK {
		t.Fatal(failed(good))
	}
	wrong := tinymodel.Converted(t, twoMatrices(t, -4), recipe)
	r := against(t, wrong, source, func(c *checkpoint.Checkpoint) {
		for i := range c.Tensors() {
			if x := &c.Tensors()[i]; x.Name != "a" {
				x.Begin -= 4
			}
		}
	})
	seen := map[string]bool{}
	for _, c := range failed(r) {
		seen[c.Name] = true
	}
	if !seen["b"] || !seen["c"] || seen["a"] {
		t.Errorf("tensors b and c were read off by one: %v", failed(r))
	}
}

// TestSecondReaderOfNames: a tensor that the first reader does not see is one that the packed file leaves out.
func TestSecondReaderOfNames(t *testing.T) {
	source := twoMatrices(t, 0)
	path := tinymodel.Converted(t, source,
		packed.Recipe{Quant: "int8", Scale: "row", Layout: "vnni4", Golden: "none", AllowLossy: true})
	s := begin(context.Background(), path, Options{}, Source)
	defer s.close()
	if err := s.checkFile(); err != nil {
		t.Fatal(err)
	}
	m := s.file.Manifest()
	m.Plain = m.Plain[:0] // as if convert had never seen c
	c, err := checkpoint.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.compareWith(c); err != nil {
		t.Fatal(err)
	}
	if bad := failed(s.report); len(bad) != 1 || !strings.Contains(bad[0].Reason, `tensor "c"`) {
		t.Errorf("%v", bad)
	}
}

// TestForeignTypes: a file with a type that the second reader does not know is compared all the same, and the report
// says by whom it was read.
func TestForeignTypes(t *testing.T) {
	list := []safetensors.TensorInfo{
		{Name: "a", DType: safetensors.F32, Shape: []int64{4, 32}},
		{Name: "b", DType: "F8_E4M3", Shape: []int64{9}},
	}
	if err := safetensors.Place(list); err != nil {
		t.Fatal(err)
	}
	header, err := safetensors.AppendHeader(nil, nil, list, 8)
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "model.safetensors")
	write(t, source, append(header, bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 131)[:521]...))
	path := tinymodel.Converted(t, source, packed.Recipe{Golden: "none"})
	r := run(t, path, Options{Source: source})
	var says []string
	for _, c := range r.Checks {
		if c.Verdict == Skip && c.Group == "second reader" {
			says = append(says, c.Reason)
		}
	}
	if !r.OK || len(says) != 1 || !strings.Contains(says[0], `tensor "b": the second reader does not know F8_E4M3`) {
		t.Errorf("%v %v", failed(r), says)
	}
	b := read(t, source)
	b[len(b)-1] ^= 1
	write(t, source, b)
	if bad := failed(run(t, path, Options{Source: source})); len(bad) == 0 {
		t.Error("a changed element passes")
	}
}

// TestSecondReaderMapsNothing: a checkpoint larger than memory is compared without a map of it, whose pages the kernel
// would keep resident.
func TestSecondReaderMapsNothing(t *testing.T) {
	source := twoMatrices(t, 0)
	c, err := checkpoint.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := begin(context.Background(), source, Options{}, Source).readAgain(c)
	if err != nil || len(r.tensors) != 3 {
		t.Fatal(err, len(r.tensors))
	}
	for _, x := range r.tensors {
		if n, err := x.ReadAt(make([]byte, x.size), 0); err != nil || int64(n) != x.size {
			t.Errorf("%s: %d bytes, %v", x.name, n, err)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	if bytes.Contains(maps, []byte(source)) {
		t.Errorf("%s is still mapped", source)
	}
}

// TestTruncatedWhileCompared: a weight file that somebody truncates after the second reader has opened it is an error.
func TestTruncatedWhileCompared(t *testing.T) {
	source := filepath.Join(t.TempDir(), "model.safetensors")
	write(t, source, read(t, bare(t, "F32", 64, 256, func(i int) float32 { return 1 })))
	c, err := checkpoint.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := begin(context.Background(), source, Options{}, Source)
	r, err := s.readAgain(c)
	if err != nil || s.report.Failed() > 0 {
		t.Fatal(err, s.report)
	}
	w, p := r.tensors["w"], make([]byte, 4096)
	if n, err := w.ReadAt(p, w.size-4096); n != 4096 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := w.ReadAt(p, w.size-4095); err == nil || !strings.Contains(err.Error(), "were asked for") {
		t.Errorf("more bytes than there are: %v", err)
	}
	if err := os.Truncate(source, 8192); err != nil {
		t.Skip(err) // Windows does not truncate what is mapped
	}
	if _, err := w.ReadAt(p, w.size-4096); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "model.safetensors: the file became shorter") {
		t.Errorf("truncated: %v", err)
	}
	if err := os.Truncate(source, 0); err != nil {
		t.Fatal(err)
	}
	again := &second{tensors: map[string]sourceTensor{}}
	if err := again.add(c.Shards()[0]); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("truncated before the header was read: %v", err)
	}
}
