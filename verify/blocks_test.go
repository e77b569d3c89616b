package verify

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestSourceBlocks: codes and scales imported from a GGUF are compared with the stored ones, also where rows are
// permuted, and a forged file whose digests all match is detected.
func TestSourceBlocks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "llama")
	tinymodel.Miniature(t, "llama-3-8b", dir)
	gguf := filepath.Join(t.TempDir(), "m.gguf")
	first := tinymodel.Converted(t, dir, packed.Recipe{Golden: "none", Quant: "mxfp4", AllowLossy: true})
	if _, err := export.GGUF(t.Context(), first, gguf, export.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	path := tinymodel.Converted(t, gguf, packed.Recipe{Golden: "none"})
	if r := run(t, path, Options{Source: gguf}); !r.OK {
		t.Fatal(failed(r))
	}
	s := newSealer(t, path)
	if len(s.parsed.Packed) != 14 || s.parsed.Packed[0].Quantizer != importCodes {
		t.Fatalf("%d tensors, %s", len(s.parsed.Packed), s.parsed.Packed[0].Quantizer)
	}
	const name = "model.layers.1.self_attn.q_proj.weight"
	for what, change := range map[string]func(b []byte){
		"a scale": func(b []byte) { b[s.tensor(name+packed.ScaleSuffix).begin]++ },
		"codes of two rows": func(b []byte) {
			p := s.tensor(name + packed.PackedSuffix)
			data := b[p.begin:p.end]
			half := len(data) / 2
			swapped := append(bytes.Clone(data[half:]), data[:half]...)
			copy(data, swapped)
		},
	} {
		b := bytes.Clone(s.good)
		change(b)
		write(t, path, s.seal(b))
		r := run(t, path, Options{Level: Source, Source: gguf})
		if bad := failed(r); len(bad) != 1 || bad[0].Group != "codes and scales" || bad[0].Name != name {
			t.Errorf("%s: %v", what, bad)
		}
	}
}

// TestBlocksOfAnotherAlphabet: codes of a type with minima that count from the lowest int8, as files have them that
// were packed before there were narrower alphabets, are those of the type.
func TestBlocksOfAnotherAlphabet(t *testing.T) {
	const q = 9
	r := &blockRows{
		Blocks: checkpoint.Blocks{Stored: checkpoint.Tensor{Shape: []int{1, 0}}}, group: 32, beyond: -128 + 16,
		codes: []int8{q - 16}, scales: []float32{0.5}, minima: []float32{-1}, weights: []float32{0.5*q - 1},
	}
	minimum := r.minima[0]
	if err := r.compare(0, 0, q-128, -128, 0.5, &minimum); err != nil {
		t.Error(err)
	}
	if r.beyond = 0; r.compare(0, 0, q-128, -128, 0.5, &minimum) == nil {
		t.Error("codes of another alphabet are not told")
	}
}
