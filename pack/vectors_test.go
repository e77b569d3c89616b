package pack_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/vectors"
	"github.com/lowpack/lowpack/pack"
)

// TestVectors packs the weights of all vectors and unpacks the bytes again. Exchange formats quantize the floats as
// ggml did, and read its blocks back into its floats.
func TestVectors(t *testing.T) {
	for _, v := range vectors.Load(t) {
		t.Run(v.Name, func(t *testing.T) {
			if v.Codes == nil {
				checkBlocks(t, &v)
			} else {
				checkCodes(t, &v)
			}
		})
	}
}

func checkCodes(t *testing.T, v *vectors.Case) {
	l, err := pack.Open(pack.Spec{Name: v.Layout, Alphabet: v.Alphabet, Params: v.Params})
	if err != nil {
		t.Fatal(err)
	}
	a, err := pack.FindAlphabet(l.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	m := &pack.Matrix{Shape: pack.Shape{M: v.M, K: v.K}, Alphabet: a, Codes: v.Codes}
	n, err := l.PackedSize(m.Shape)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, n)
	if err := l.Pack(packed, m); err != nil {
		t.Fatal(err)
	}
	v.Check(t, packed)
	back := pack.NewMatrix(m.Shape, a)
	if err := l.Unpack(back, packed); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Codes, m.Codes) {
		t.Error("unpacked codes differ")
	}
}

func checkBlocks(t *testing.T, v *vectors.Case) {
	b, err := pack.OpenBlocks(v.Layout)
	if err != nil {
		t.Fatal(err)
	}
	s := pack.Shape{M: v.M, K: v.K}
	n, err := b.PackedSize(s)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, n)
	if err := b.Quantize(got, s, v.Floats); err != nil {
		t.Fatal(err)
	}
	v.Check(t, got)
	back := make([]float32, s.M*s.K)
	if err := pack.Dequantize(b, back, s, got); err != nil {
		t.Fatal(err)
	}
	if v.Dequant != nil && !slices.Equal(back, v.Dequant) {
		t.Errorf("dequantized:\n got %v\nwant %v", back, v.Dequant)
	}
	a, err := pack.FindAlphabet(b.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	m, scales := pack.NewMatrix(s, a), make([]float32, s.M*s.K/b.BlockSize())
	again := make([]byte, n)
	if err := b.UnpackBlocks(m, scales, got); err != nil {
		t.Fatal(err)
	}
	if err := b.PackBlocks(again, m, scales); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, got) {
		t.Error("codes and scales pack to other bytes than they came from")
	}
}
