package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/tokenizer/texts"
	"github.com/lowpack/lowpack/verify/reference"
)

// TestGolden reads the golden outputs back and recomputes them from the finished file.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		path             string
		recipe           packed.Recipe
		products, logits bool
	}{
		{shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}, true, true},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Head: "int8"}, true, true},
		{mini(t, "llama-3-8b", nil), packed.Recipe{}, false, true},
		{mini(t, "falcon3-1b", nil), packed.Recipe{Golden: "kernel", Layout: "i2"}, true, false},
		{mini(t, "bitnet-2b4t", nil), packed.Recipe{Layout: "hf-u8"}, true, true}, // no kernel reads it as it is
		{mini(t, "bitnet-2b4t", nil), packed.Recipe{Layout: "tl2", Head: "screen"}, true, true},
		{mini(t, "qwen2.5-0.5b", nil),
			packed.Recipe{Quant: "int4", Scale: "group:32", Layout: "vnni4i", AllowLossy: true},
			true, true},
		{filepath.Join(mini(t, "trilm-99m", nil), "model.safetensors"), packed.Recipe{AllowLossy: true}, true, false},
	} {
		f := convertTo(t, c.path, Options{Recipe: c.recipe})
		stored, err := f.Tensor(packed.GoldenName)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(stored.Data); hex.EncodeToString(sum[:]) != f.Manifest().Golden {
			t.Errorf("%s: wrong digest of the golden outputs", c.path)
		}
		record, err := golden.Decode(stored.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(record.Products) > 0 != c.products || len(record.Logits) > 0 != c.logits {
			t.Errorf("%s: %d products, %d logits", c.path, len(record.Products), len(record.Logits))
		}
		d, err := packed.Describe(f)
		if err != nil && c.logits {
			t.Fatal(err)
		}
		encoded, err := texts.From(f.Embedded)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := golden.Plan(f.Manifest().Recipe.Golden, f.Manifest(), d, encoded)
		if err != nil {
			t.Fatal(err)
		}
		again, err := reference.Record(context.Background(), f, d, plan, nil)
		if err != nil || !bytes.HasPrefix(stored.Data, again) {
			t.Errorf("%s: the finished file gives other golden outputs; %v", c.path, err)
		}
	}
}

// TestGoldenCancelled cancels while golden outputs are computed.
func TestGoldenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	at := newPlace(t, "old")
	o := Options{Progress: func(what string, _, _ int64) {
		if what == GoldenPhase {
			cancel()
		}
	}}
	_, err := newPlan(t, shared.Testdata(t, "tiny-bitnet"), o).Run(ctx, at.target)
	if err == nil {
		t.Error("not cancelled")
	}
	at.untouched(t, "cancelled")
}
