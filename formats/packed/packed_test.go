package packed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// sample is a small file with everything that a packed file can hold: two quantized tensors, plain ones of several
// element sizes, an embedded file and golden outputs.
func sample(t testing.TB) (Contents, map[string][]byte, map[string]*pack.Matrix) {
	t.Helper()
	data := map[string][]byte{
		"norm":                     {1, 2, 3, 4},
		"embed":                    bytes.Repeat([]byte{7}, 2*3*5),
		"wide":                     bytes.Repeat([]byte{9}, 16),
		"empty":                    {},
		"scalar":                   {0, 0, 128, 63},
		FilePrefix + "config.json": []byte(`{"a": "<&>"}`),
		GoldenName:                 bytes.Repeat([]byte("gold"), 25),
	}
	c := Contents{Golden: 100}
	for _, p := range []Info{
		{"norm", "BF16", []int{2}}, {"embed", "F16", []int{5, 3}}, {"wide", "I64", []int{2, 1}}, {"empty", "F32",
			[]int{0, 4}},
		{"scalar", "F32", nil}, {FilePrefix + "config.json", "U8", []int{12}},
	} {
		c.Manifest.Plain = append(c.Manifest.Plain, Plain{Name: p.Name, DType: p.DType, Shape: p.Shape})
	}
	c.Manifest.Tool, c.Manifest.Family = "lowpack test", "none"
	c.Manifest.Sources = []Source{{Name: "model.safetensors", Size: 12, SHA256: ""}}
	c.Manifest.Recipe = Recipe{Quant: "auto", Layout: "vnni4i", Golden: "none"}
	codes := map[string]*pack.Matrix{}
	for i, name := range []string{"a.weight", `z"é\` + "\n"} {
		l, err := pack.Open(pack.Spec{Name: []string{"vnni4i", "i1"}[i]})
		if err != nil {
			t.Fatal(err)
		}
		s := pack.Shape{M: 5 + i, K: 10 + 30*i}
		m := pack.NewMatrix(s, pack.Ternary)
		for j := range m.Codes {
			m.Codes[j] = int8(j*j%3 - 1)
		}
		size, err := l.PackedSize(s)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, size)
		if err := l.Pack(b, m); err != nil {
			t.Fatal(err)
		}
		scale := []Scale{{Kind: ScaleTensor}, {Kind: ScaleGroup, Group: 32}}[i]
		c.Manifest.Packed = append(c.Manifest.Packed, Entry{
			Name: name, Shape: []int{s.M, s.K}, Layout: l.Spec(), Bytes: size, Scale: scale, Quantizer: "test",
		})
		shape, err := c.Manifest.Packed[i].ScaleShape()
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		for _, d := range shape {
			n *= d
		}
		data[name+PackedSuffix] = b
		data[name+ScaleSuffix] = bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)), n)
		codes[name] = m
	}
	return c, data, codes
}

// writeSample writes the tensors concurrently, each in pieces.
func writeSample(t testing.TB, path string, c Contents, data map[string][]byte,
	codes map[string]*pack.Matrix) *Manifest {
	t.Helper()
	w, err := Create(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	var all sync.WaitGroup
	for name, d := range data {
		all.Go(func() {
			s, err := w.Stream(name)
			if err != nil {
				t.Error(err)
				return
			}
			for piece := range slices.Chunk(d, 7) {
				if _, err := s.Write(piece); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for name, m := range codes {
		e, _ := w.Manifest().Entry(name)
		e.CodesSHA = CodesDigest(m)
	}
	for i := range w.Manifest().Sources {
		w.Manifest().Sources[i].SHA256 = strings.Repeat("ab", 32)
	}
	checkView(t, w, data, codes)
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return w.Manifest()
}

func checkView(t testing.TB, v View, data map[string][]byte, codes map[string]*pack.Matrix) {
	t.Helper()
	for name, want := range data {
		got, err := v.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		rest := got.Data[min(len(want), len(got.Data)):]
		if !bytes.HasPrefix(got.Data, want) || len(rest) >= Align || len(bytes.Trim(rest, "\x00")) > 0 {
			t.Errorf("%q: %v instead of %v", name, got.Data, want)
		}
	}
	for name, want := range codes {
		e, ok := v.Manifest().Entry(name)
		if !ok {
			t.Fatalf("no entry %q", name)
		}
		got, err := Codes(v, e, 0)
		if err != nil || !slices.Equal(got.Codes, want.Codes) {
			t.Errorf("%q: codes differ; %v", name, err)
		}
		scales, err := Scales(v, e)
		if err != nil || slices.ContainsFunc(scales, func(s float32) bool { return s != 0.5 }) {
			t.Errorf("%q: scales %v; %v", name, scales, err)
		}
	}
	if text, ok := v.Embedded("config.json"); !ok || string(text) != `{"a": "<&>"}` {
		t.Errorf("config.json: %q", text)
	}
	for _, absent := range []string{"golden", "tokenizer.json", ""} {
		if _, ok := v.Embedded(absent); ok {
			t.Errorf("there is an embedded file %q", absent)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	c, data, codes := sample(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	m := writeSample(t, path, c, data, codes)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	checkView(t, f, data, codes)
	size, err := c.Size()
	if info, _ := os.Stat(path); err != nil || info.Size() != size || f.Size() != size {
		t.Errorf("%d bytes, %d planned, %d according to the reader; %v", info.Size(), size, f.Size(), err)
	}
	for _, info := range f.Tensors() {
		s, err := f.Section(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := f.Tensor(info.Name); !bytes.Equal(got, want.Data) {
			t.Errorf("%s: Section and Tensor differ", info.Name)
		}
	}
	checkDigests(t, f, m)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// checkDigests recomputes every digest of the manifest.
func checkDigests(t *testing.T, f *File, m *Manifest) {
	t.Helper()
	want := map[string]string{GoldenName: m.Golden}
	for _, e := range m.Packed {
		want[e.Name+PackedSuffix], want[e.Name+ScaleSuffix] = e.SHA256, e.ScaleSHA
	}
	for _, p := range m.Plain {
		want[p.Name] = p.SHA256
	}
	infos := f.Tensors()
	if len(infos) != len(want) {
		t.Errorf("%d tensors, %d digests", len(infos), len(want))
	}
	for _, info := range infos {
		d, _ := f.Tensor(info.Name)
		if sum := sha256.Sum256(d.Data); hex.EncodeToString(sum[:]) != want[info.Name] {
			t.Errorf("%s: wrong digest in the manifest", info.Name)
		}
	}
}

// TestFrame checks the file against F1 to F8 with separate code.
func TestFrame(t *testing.T) {
	c, data, codes := sample(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	writeSample(t, path, c, data, codes)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(file)
	if (8+n)%64 != 0 {
		t.Errorf("data start at %d", 8+n)
	}
	json := string(file[8 : 8+n])
	at := 0
	for _, want := range []string{
		`{"__metadata__":{"format":"lowpack","lowpack.manifest":"{\"format\":2,\"tool\":\"lowpack test\"`,
		`"lowpack.manifest.sha256":"`,
		`"a.weight.packed":{"dtype":"U8","shape":[`, `],"data_offsets":[0,`,
		`"z\"é\\\n.packed":{"dtype":"U8","shape":[`,
		`"wide":{"dtype":"I64","shape":[2,1]`,
		`"a.weight.scale":{"dtype":"F32","shape":[1]`, `"empty":{"dtype":"F32","shape":[0,4]`,
		`"scalar":{"dtype":"F32","shape":[]`, `"z\"é\\\n.scale":{"dtype":"F32","shape":[6,2]`,
		`"embed":{"dtype":"F16","shape":[5,3]`, `"norm":{"dtype":"BF16","shape":[2]`,
		`"lowpack/config.json":{"dtype":"U8","shape":[12]`,
		`"lowpack/golden":{"dtype":"U8","shape":[128]`,
	} {
		i := strings.Index(json[at:], want)
		if i < 0 {
			t.Fatalf("%s does not follow in %s", want, json)
		}
		at += i
	}
}

// TestEveryHeaderFlip flips every bit of the header and truncates the file at every byte; Open alone rejects all of
// them.
func TestEveryHeaderFlip(t *testing.T) {
	c, data, codes := sample(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	writeSample(t, path, c, data, codes)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := 8 + int(binary.LittleEndian.Uint64(file))
	broken, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	refused := func(what string, i int) {
		f, err := Open(path)
		if err == nil {
			f.Close()
			t.Fatalf("%s %d was not found: …%q…", what, i, file[max(0, i/8-40):min(len(file), i/8+40)])
		}
		if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrLimit) {
			t.Fatalf("%s %d: error of no class: %v", what, i, err)
		}
	}
	for i := range header * 8 {
		broken.WriteAt([]byte{file[i/8] ^ 1<<(i%8)}, int64(i/8))
		refused("flip of bit", i)
		broken.WriteAt(file[i/8:i/8+1], int64(i/8))
	}
	broken.WriteAt([]byte{0}, int64(len(file)))
	refused("a byte more than", len(file))
	for i := len(file) - 1; i >= 0; i-- {
		broken.Truncate(int64(i))
		refused("truncation to", i)
	}
}
