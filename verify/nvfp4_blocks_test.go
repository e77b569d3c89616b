package verify

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestSourceNVFP4: the .scale of a matrix of NVFP4 multiplies the scales of its groups, that of experts those of the
// rows of each, and an .input_scale nothing; a forged scale is told.
func TestSourceNVFP4(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	tinymodel.MiniatureWith(t, "qwen3-30b-a3b", dir, func(o *synth.Options) { o.Weights = synth.Normal })
	plain := filepath.Join(t.TempDir(), "plain.gguf")
	first := tinymodel.Converted(t, dir, packed.Recipe{Golden: "none", Quant: "none"})
	if _, err := export.GGUF(t.Context(), first, plain, export.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nvfp4.gguf")
	if n := toNVFP4(t, plain, file); n < 5 {
		t.Fatalf("%d matrices", n)
	}
	path := tinymodel.Converted(t, file, packed.Recipe{Golden: "none"})
	if r := run(t, path, Options{Source: file}); !r.OK {
		t.Fatal(failed(r))
	}
	f := openPacked(t, path)
	experts := 0
	for _, e := range f.Manifest().Packed {
		scales, err := packed.Scales(f, &e)
		if err != nil {
			t.Fatal(err)
		}
		each := len(scales) / e.Experts()
		for x := range e.Experts() {
			if got, want := scales[x*each], scaleNVFP4*factorNVFP4(x); got != want {
				t.Errorf("%s: expert %d has scale %v, want %v", e.Name, x, got, want)
			}
		}
		experts = max(experts, e.Experts())
		if e.Layout.Alphabet != "e2m1" || e.Scale.DType != packed.ScaleF32 {
			t.Errorf("%s: %s, %v", e.Name, e.Layout.Alphabet, e.Scale)
		}
	}
	if n := len(f.Manifest().Packed); n < 5 || experts < 2 {
		t.Errorf("%d packed, %d experts", n, experts)
	}
	s := newSealer(t, path)
	b := bytes.Clone(s.good)
	b[s.tensor(s.parsed.Packed[0].Name+packed.ScaleSuffix).begin]++
	write(t, path, s.seal(b))
	if r := run(t, path, Options{Level: Source, Source: file}); r.OK {
		t.Error("another scale is not told")
	}
}

// scaleNVFP4 is of all groups, and half of what their byte 0x3b is as E4M3, 1.375.
const scaleNVFP4 float32 = 0.6875

// factorNVFP4 is the .scale of an expert, and with 0 of other matrices.
func factorNVFP4(expert int) float32 { return 0.1 * float32(1+expert) }

// toNVFP4 writes a GGUF whose matrices are of NVFP4, with scales of tensors, and returns how many there are.
func toNVFP4(t *testing.T, from, to string) (n int) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var list []gguf.TensorInfo
	contents := map[string][]byte{}
	add := func(name string, kind gguf.Type, data []byte, shape ...int64) {
		list = append(list, gguf.TensorInfo{Name: name, Type: kind, Shape: shape})
		contents[name] = data
	}
	for _, x := range h.Tensors {
		matrix, weight := strings.CutSuffix(x.Name, ".weight")
		if !weight || len(x.Shape) < 2 || x.Columns()%64 != 0 || strings.Contains(x.Name, "ffn_gate_inp") ||
			x.Name == "token_embd.weight" {
			add(x.Name, x.Type, data[h.DataStart+x.Begin:][:x.Size], x.Shape...)
			continue
		}
		n++
		blocks := make([]byte, x.Weights()/64*36)
		for i := range blocks {
			if blocks[i] = byte(i*i + i>>3); i%36 < 4 {
				blocks[i] = 0x3b
			}
		}
		add(x.Name, gguf.NVFP4, blocks, x.Shape...)
		experts := int64(1)
		if len(x.Shape) == 3 {
			experts = x.Shape[0]
		}
		var factors []byte
		for e := range experts {
			factors = binary.LittleEndian.AppendUint32(factors, math.Float32bits(factorNVFP4(int(e))))
		}
		add(matrix+".scale", gguf.F32, factors, experts)
		add(matrix+".input_scale", gguf.F32, factors, experts)
	}
	if err := gguf.Place(list); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, h.Keys, list)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := w.Write(x.Name, contents[x.Name]); err != nil {
			t.Fatal(err)
		}
	}
	write(t, to, b.Bytes())
	return n
}
