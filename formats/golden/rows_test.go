package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// TestRows: the first two and last two rows are always recorded, since errors at panel tails show there.
func TestRows(t *testing.T) {
	for seed := range uint64(20) {
		rows := chooseRows(1_000_000, 64, seed)
		if !slices.Equal(rows[:2], []int32{0, 1}) || !slices.Equal(rows[len(rows)-2:], []int32{999_998, 999_999}) {
			t.Errorf("seed %d: %v", seed, rows)
		}
	}
	if rows := chooseRows(1, 64, 3); !slices.Equal(rows, []int32{0}) {
		t.Errorf("one row: %v", rows)
	}
}

// TestListed extracts listed rows from the products of a matrix with four rows.
func TestListed(t *testing.T) {
	p := Product{Rows: []int32{1, 3}}
	if got := p.Listed([]int32{10, 11, 12, 13, 20, 21, 22, 23}, 4); !slices.Equal(got, []int32{11, 13, 21, 23}) {
		t.Error(got)
	}
}

// TestFirstToken: the BOS token may be token 0; without one the first token is random like the others.
func TestFirstToken(t *testing.T) {
	for bos, want := range map[int]int32{0: 0, 7: 7, -1: tokens(5, 1, 1000, 1000)[0]} {
		if got := tokens(5, 3, 1000, bos); got[0] != want {
			t.Errorf("beginning of text %d: %v", bos, got)
		}
	}
	if tokens(5, 1, 1000, -1)[0] == 0 {
		t.Error("seed 5 cannot tell")
	}
}

// TestLogitsHeld: a small model with a large vocabulary gets a smaller plan because of the memory of its logits.
func TestLogitsHeld(t *testing.T) {
	d := &model.Description{Config: model.Config{Vocab: 200_000, Hidden: 8, MaxPositions: 4096, BOS: -1}, Head: "head"}
	r, err := Plan(packed.GoldenFull, &packed.Manifest{}, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	for _, l := range r.Logits {
		if l.Given {
			given++
		}
	}
	if given == 0 || given*d.Vocab > logitsHeld {
		t.Errorf("%d given tokens of %d logits", given, d.Vocab)
	}
}

// TestPadding: only zeros may follow a record.
func TestPadding(t *testing.T) {
	b := encode(t, fill(plan(t, packed.GoldenKernel)))
	if _, err := Decode(append(slices.Clone(b), 0, 0)); err != nil {
		t.Error(err)
	}
	if _, err := Decode(append(slices.Clone(b), 0, 1)); err == nil {
		t.Error("padding that is not zero")
	}
}

// TestDigestProducts: a digest covers every value, including those after the last full hash block.
func TestDigestProducts(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 2500} {
		acc := make([]int32, n)
		for i := range acc {
			acc[i] = int32(i * i)
		}
		b := make([]byte, 0, 4*n)
		for _, v := range acc {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		want := sha256.Sum256(b)
		if got := DigestProducts(acc); got != hex.EncodeToString(want[:]) {
			t.Errorf("%d values: %s", n, got)
		}
	}
}
