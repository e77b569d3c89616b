package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/nlpodyssey/safetensors"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/pack"
)

// foreign are the types that the other reader lacks.
var foreign = []DType{"F8_E8M0", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"}

// agree compares the strict reader with an independent one: whatever the strict reader accepts, the other must accept
// with the same tensors. It also writes the header again and checks that it parses to the same table.
func agree(t *testing.T, file []byte) error {
	h, err := Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("an error of no kind: %v", err)
		}
		return err
	}
	text, err := AppendHeader(nil, h.Metadata, h.Tensors, 8)
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	data := file[h.DataStart:]
	again, err := Parse(bytes.NewReader(text), int64(len(text)+len(data)))
	if err != nil || !slices.Equal(table(again), table(h)) || !slices.Equal(again.Metadata, h.Metadata) {
		t.Fatalf("written again: %v\n%v\n%v", err, table(again), table(h))
	}
	for i := range h.Tensors {
		if slices.Contains(foreign, h.Tensors[i].DType) {
			return nil
		}
	}
	other, err := safetensors.Deserialize(file)
	if err != nil {
		t.Fatalf("the other reader refuses: %v", err)
	}
	if other.Len() != len(h.Tensors) {
		t.Fatalf("%d tensors, the other reader has %d", len(h.Tensors), other.Len())
	}
	for _, x := range h.Tensors {
		v, ok := other.Tensor(x.Name)
		if !ok {
			t.Fatalf("the other reader has no tensor %q", x.Name)
		}
		if v.DType().String() != string(x.DType) || fmt.Sprint(v.Shape()) != fmt.Sprint(x.Shape) ||
			!bytes.Equal(v.Data(), data[x.Begin:x.End]) {
			t.Fatalf("tensor %q: %v %v, the other reader has %v %v", x.Name, x.DType, x.Shape, v.DType(), v.Shape())
		}
	}
	return nil
}

// seeds are the small files of the corpus and a valid file with all features.
func seeds(t testing.TB) [][]byte {
	var files [][]byte
	for _, c := range hostile.In(hostile.Container) {
		if c.Big {
			continue
		}
		path, err := c.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 1<<16 {
			files = append(files, b)
		}
	}
	return append(files, randomFile(rand.New(rand.NewPCG(1, 2))))
}

// randomFile returns a valid file with a few tensors of random names, types and shapes.
func randomFile(r *rand.Rand) []byte {
	types := []DType{F32, F16, BF16, U8, I8, "I64", "F64", "BOOL", "U16", "U32", "I32", "I16", "U64"}
	var ts []TensorInfo
	for i := range r.IntN(5) {
		t := TensorInfo{Name: string([]rune{rune('a' + i),
			[]rune{'"', '\\', 'é', '\u2028', '😀', '\n', '/'}[r.IntN(7)]}),
			DType: types[r.IntN(len(types))]}
		for range r.IntN(4) {
			t.Shape = append(t.Shape, int64(r.IntN(4)))
		}
		ts = append(ts, t)
	}
	if err := Place(ts); err != nil {
		panic(err)
	}
	var meta []KV
	for i := range r.IntN(3) {
		meta = append(meta, KV{fmt.Sprint("k", i), string(rune(1 + r.IntN(0x3000)))})
	}
	b, err := AppendHeader(nil, meta, ts, 8)
	if err != nil {
		panic(err)
	}
	if len(ts) > 0 {
		b = append(b, make([]byte, ts[len(ts)-1].End)...)
	}
	return b
}

// mutate changes tokens of the header and fixes the length; blind mutations fail at the length.
func mutate(seed uint64, file []byte) []byte {
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return file
	}
	n := binary.LittleEndian.Uint64(file)
	text := hostile.Mutate(seed, file[8:8+n], `"dtype"`, `"shape"`, `"data_offsets"`, `"__metadata__"`, `"F32"`, `"U8"`,
		`"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), file[8+n:]...)
}

// FuzzHeader mutates in two ways: the engine changes bytes, mutate changes tokens of the header (seed 0: no change).
func FuzzHeader(f *testing.F) {
	for i, s := range seeds(f) {
		f.Add(s, uint64(0))
		f.Add(s, uint64(i+1))
	}
	f.Fuzz(func(t *testing.T, file []byte, seed uint64) {
		agree(t, mutate(seed, file))
	})
}

// TestDifferential runs a fixed sample of FuzzHeader: valid files and their mutations. The counts show that both
// verdicts occur often enough to be meaningful.
func TestDifferential(t *testing.T) {
	accepted, refused := 0, 0
	for i := range 20000 {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		file := randomFile(r)
		if i%4 != 0 {
			file = mutate(uint64(i), file)
		}
		if agree(t, file) == nil {
			accepted++
		} else {
			refused++
		}
	}
	if accepted < 5000 || refused < 5000 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
}
