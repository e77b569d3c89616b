package reference

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestRecord records a small model and recomputes every result in the plainest way.
func TestRecord(t *testing.T) {
	d := plain()
	file, _ := randomModel(d, 5)
	quantizeBlocks(d, file)
	f := file.Open(t)
	plan, err := golden.Plan(packed.GoldenFull, f.Manifest(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	size, err := plan.Size()
	if err != nil {
		t.Fatal(err)
	}
	last, planned := int64(0), int64(0)
	b, err := Record(context.Background(), f, d, plan, func(done, total int64) { last, planned = done, total })
	if err != nil || len(b) != size {
		t.Fatalf("%d bytes, planned %d: %v", len(b), size, err)
	}
	if last != planned || last == 0 {
		t.Errorf("progress ended at %d of %d", last, planned)
	}
	r, err := golden.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Products {
		checkRecorded(t, f, &r.Products[i])
	}
	m, err := New(f, d)
	if err != nil {
		t.Fatal(err)
	}
	checkLogits(t, m, r.Logits)
	old := runtime.GOMAXPROCS(1)
	again, err := Record(context.Background(), f, d, plan, nil)
	runtime.GOMAXPROCS(old)
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("one core gives another record (%v)", err)
	}
}

func checkRecorded(t *testing.T, v packed.View, p *golden.Product) {
	t.Helper()
	e, _ := v.Manifest().Entry(p.Tensor)
	codes, err := packed.Codes(v, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	group := codes.K
	if e.Scale.Kind == packed.ScaleGroup {
		group = e.Scale.Group
	}
	var all, listed []int32
	for _, q := range golden.Vectors(p.Seed, p.Vectors, codes.K) {
		for from := 0; from < codes.K; from += group {
			to := min(from+group, codes.K)
			for m := range codes.M {
				v := naive(codes.Codes[m*codes.K+from:m*codes.K+to], q[from:to])
				all = append(all, v)
				if slices.Contains(p.Rows, int32(m)) {
					listed = append(listed, v)
				}
			}
		}
	}
	if !slices.Equal(listed, p.Values) {
		t.Errorf("%s by %d vectors: %v, want %v", p.Tensor, p.Vectors, p.Values, listed)
	}
	if p.Digest != golden.DigestProducts(all) {
		t.Errorf("%s by %d vectors: another digest", p.Tensor, p.Vectors)
	}
}

func checkLogits(t *testing.T, m *Model, rows []golden.Logits) {
	t.Helper()
	sequences, generated := 0, 0
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Position > 0 {
			n++
		}
		tokens := make([]int, n)
		for i := range tokens {
			tokens[i] = int(rows[i].Token)
		}
		z := logits(t, m, tokens)
		for i, l := range rows[:n] {
			name := fmt.Sprintf("sequence %d, position %d", l.Sequence, l.Position)
			if l.Sequence != sequences || int(l.Position) != i {
				t.Fatalf("%s stands at %d of %d", name, i, sequences)
			}
			if l.Digest != golden.DigestLogits(z[i]) || int(l.TopTokens[0]) != ArgMax(z[i]) ||
				l.TopLogits[19] != z[i][l.TopTokens[19]] {
				t.Errorf("%s: %+v", name, l)
			}
			if !l.Given {
				generated++
				if l.Token != rows[i-1].TopTokens[0] {
					t.Errorf("%s: token %d, the arg-max before is %d", name, l.Token, rows[i-1].TopTokens[0])
				}
			}
		}
		rows = rows[n:]
		sequences++
	}
	if sequences != 3 || generated != 48 {
		t.Errorf("%d sequences, %d generated tokens", sequences, generated)
	}
}

// TestSameEverywhere fixes the golden outputs of a real model, logits included, to the bit: on every architecture, with
// and without instructions that fuse a multiplication with an addition.
func TestSameEverywhere(t *testing.T) {
	const want = "8f6341cec3bbbac3460e3aef387d7c74d3fa1d5b1ef8709be20505d1e60c7e0f"
	f := sample.FromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), pack.Spec{Name: "vnni4i"}).Open(t)
	d := describe(t, f)
	plan, err := golden.Plan(packed.GoldenFull, f.Manifest(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Record(context.Background(), f, d, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != want {
		t.Errorf("SHA-256 of the record is %s, want %s", got, want)
	}
}

// TestRecordRows: without a digest only the listed rows are computed, with the same values, in every layout.
func TestRecordRows(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	shape := pack.Shape{M: 256, K: 256}
	for _, layout := range []string{"vnni4i", "i2", "i2s"} {
		f := (&sample.Model{Quantized: []sample.Quantized{{
			Name:   "w",
			Matrix: randomMatrix(r, shape, pack.Ternary),
			Layout: pack.Spec{Name: layout},
			Scale:  packed.Scale{Kind: packed.ScaleTensor},
			Scales: []float32{1},
		}}}).Open(t)
		plan, err := golden.Plan(packed.GoldenKernel, f.Manifest(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		record := func() []golden.Product {
			b, err := Record(context.Background(), f, nil, plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			out, err := golden.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			return out.Products
		}
		whole := record()
		for i := range plan.Products {
			plan.Products[i].Digest = ""
		}
		for i, p := range record() {
			if p.Digest != "" || !slices.Equal(p.Values, whole[i].Values) {
				t.Errorf("%s, product %d: other values", layout, i)
			}
		}
	}
}

// TestRecordErrors: a plan for another file, and an interruption.
func TestRecordErrors(t *testing.T) {
	d := plain()
	file, _ := randomModel(d, 5)
	quantizeBlocks(d, file)
	f := file.Open(t)
	plan, err := golden.Plan(packed.GoldenFull, f.Manifest(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Record(ctx, f, d, plan, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	plan.Products[3].Tensor = "nowhere"
	if _, err := Record(context.Background(), f, d, plan, nil); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("unknown tensor: %v", err)
	}
}
