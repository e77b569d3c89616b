package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// inLayout is a file of one tensor, as small as the layout allows with some columns and rows to spare.
func inLayout(seed uint64, spec pack.Spec, a pack.Alphabet) *sample.Model {
	r := rand.New(rand.NewPCG(seed, 3))
	q := sample.Quantized{Name: "w", Matrix: pack.NewMatrix(pack.Shape{M: 5, K: 23}, a), Layout: spec,
		Scale: packed.Scale{Kind: packed.ScaleRow}, Quantizer: "test"}
	for i := range q.Matrix.Codes {
		q.Matrix.Codes[i] = a.Values[r.IntN(len(a.Values))]
	}
	for range q.Matrix.M {
		q.Scales = append(q.Scales, 0.001+r.Float32())
	}
	return &sample.Model{Quantized: []sample.Quantized{q}, Recipe: packed.Recipe{Golden: "none"}}
}

// eachLayout calls test with every layout in every alphabet that it holds.
func eachLayout(t *testing.T, test func(t *testing.T, spec pack.Spec, a pack.Alphabet)) {
	for _, info := range pack.Layouts() {
		if info.Block != 0 {
			continue // an exchange format, which no packed file holds
		}
		for _, a := range info.Alphabets {
			l, err := pack.Open(pack.Spec{Name: info.Name, Alphabet: a.Name})
			if err != nil {
				t.Fatal(err)
			}
			t.Run(info.Name+"/"+a.Name, func(t *testing.T) { test(t, l.Spec(), a) })
		}
	}
}

// TestDamageInEveryLayout flips bits of a small file in every layout and cuts it: all of them with LOWPACK_LONG, else
// in steps that meet every bit of a byte.
func TestDamageInEveryLayout(t *testing.T) {
	header, data, cut := 997, 37, 97
	if long.All {
		header, data, cut = 1, 1, 1
	}
	eachLayout(t, func(t *testing.T, spec pack.Spec, a pack.Alphabet) {
		path := file(t, inLayout(1, spec, a))
		everyBit(t, path, header, data)
		everyTruncation(t, path, cut)
	})
}

// TestBlocksInEveryLayout zeroes, swaps and repeats blocks of 64 bytes, puts the header of another file before the
// data, and joins two files.
func TestBlocksInEveryLayout(t *testing.T) {
	const size = 64
	eachLayout(t, func(t *testing.T, spec pack.Spec, a pack.Alphabet) {
		path := file(t, inLayout(1, spec, a))
		good, other := read(t, path), read(t, file(t, inLayout(2, spec, a)))
		start := 8 + int(binary.LittleEndian.Uint64(good))
		if len(other) != len(good) || bytes.Equal(good, other) {
			t.Fatal("two files that can be mixed up are wanted")
		}
		found := func(what string, b []byte) {
			t.Helper()
			if bytes.Equal(b, good) {
				return // blocks that were alike
			}
			write(t, path, b)
			if bad := failed(run(t, path, Options{Level: Digest})); len(bad) == 0 {
				t.Errorf("%s: nothing was found", what)
			}
		}
		block := func(b []byte, i int) []byte { return b[start+i*size : min(start+(i+1)*size, len(b))] }
		blocks := (len(good) - start + size - 1) / size
		for i := range blocks {
			b := bytes.Clone(good)
			clear(block(b, i))
			found(fmt.Sprintf("block %d zeroed", i), b)
			b = bytes.Clone(good)
			copy(block(b, i), block(other, i))
			found(fmt.Sprintf("block %d of another file", i), b)
			for j := max(0, i-1); j < i; j++ {
				b = bytes.Clone(good)
				copy(block(b, i), block(good, j))
				found(fmt.Sprintf("block %d for block %d", j, i), b)
				n := copy(block(b, j), block(good, i))
				copy(block(b, i), block(good, j)[:n])
				found(fmt.Sprintf("blocks %d and %d swapped", i, j), b)
			}
		}
		found("manifest of one file, data of another", append(bytes.Clone(good[:start]), other[start:]...))
		found("data of one file, manifest of another", append(bytes.Clone(other[:start]), good[start:]...))
		found("two files joined", append(bytes.Clone(good), other...))
		found("data of two files", append(bytes.Clone(good), other[start:]...))
	})
}
