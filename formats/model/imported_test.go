package model_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify"
)

// importedMedian and importedMost bound |Δ| of logits over their standard deviation, at the median and at most: weights
// are code · scale here, and GPTQModel rounds scales and weights to BF16. Measured: 4.6e-3 and 4.3e-2; 5.6e-7 and
// 7.4e-6 for AutoRound and bitsandbytes. With such coarse weights the argmax may differ where two logits are close.
const importedMedian, importedMost = 6e-3, 6e-2

// TestImported: checkpoints of GPTQ, AutoRound, AWQ, compressed-tensors, MLX and bitsandbytes give the logits of the
// program that made them, teacher-forced with float activations, or are rejected with the name of the unsupported
// feature.
func TestImported(t *testing.T) {
	root := shared.Path(t, "data/packed")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ran, refused := 0, 0
	for _, e := range dirs {
		dir := filepath.Join(root, e.Name())
		if strings.HasPrefix(e.Name(), "bonsai-") || strings.HasPrefix(e.Name(), "bitnet-") {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			p, err := convert.NewPlan(t.Context(), dir, convert.Options{Recipe: packed.Recipe{Golden: "none"}})
			if err != nil {
				refused++
				if !errors.Is(err, pack.ErrUnsupported) {
					t.Error(err)
				}
				return
			}
			p.Close()
			v, d := packMini(t, dir)
			ran++
			tokens, want := sampleLogits(t, dir)
			if want == nil {
				return
			}
			floats := strings.HasPrefix(e.Name(), "bnb-nf4")
			if n := len(v.Manifest().Packed); n < 4 && !floats || n > 0 && floats {
				t.Fatalf("%d matrices are packed", n)
			}
			for who, got := range map[string][][]float32{"reference": judged(t, dequantize(t, v), d, tokens),
				"engine": engineLogits(t, dequantize(t, v), tokens)} {
				median, most, agree := deviation(t, got, want)
				t.Logf("%s: median %.2g, at most %.2g, arg-max %d of %d", who, median, most, agree, len(tokens))
				if median > importedMedian || most > importedMost || agree < len(tokens)-4 {
					t.Errorf("%s: |Δ| over the standard deviation is %.2g at the median and %.2g at most, of %.2g and "+
						"%.2g; arg-max agrees at %d of %d positions",
						who, median, most, importedMedian, importedMost, agree, len(tokens))
				}
			}
		})
	}
	if ran < 69 || refused > 1 {
		t.Errorf("%d converted, %d refused", ran, refused)
	}
}

// sampleLogits returns the tokens and logits stored next to a sample, computed in float32 with its dequantized weights;
// nil without.
func sampleLogits(t *testing.T, dir string) (tokens []int, logits [][]float64) {
	t.Helper()
	meta, err := os.ReadFile(filepath.Join(dir, "ref", "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "ref", "logits.safetensors"))
	// the logits are from a program that did not decode the codes this way
	if err != nil || bytes.Contains(meta, []byte(`"dequant_by"`)) {
		return nil, nil
	}
	h, err := safetensors.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil { // mlx writes null metadata, and logits of its own arithmetic
		return nil, nil
	}
	for _, x := range h.Tensors {
		raw := data[h.DataStart+x.Begin : h.DataStart+x.End]
		for i := 0; i < len(raw); i += 4 {
			bits := binary.LittleEndian.Uint32(raw[i:])
			switch x.Name {
			case "tokens":
				tokens = append(tokens, int(bits))
			case "logits_f32_of_dequantized":
				if n := int(x.Shape[1]); i/4%n == 0 {
					logits = append(logits, nil)
				}
				logits[len(logits)-1] = append(logits[len(logits)-1], float64(math.Float32frombits(bits)))
			}
		}
	}
	return tokens, logits
}

// TestImportedAgainstSource: imported codes and scales are compared with the checkpoint, so that a changed byte in
// either is reported with the tensor that it belongs to.
func TestImportedAgainstSource(t *testing.T) {
	source := shared.Path(t, "data/packed/gptq-b4-sym-g128")
	weights, err := os.ReadFile(filepath.Join(source, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(bytes.NewReader(weights), int64(len(weights)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := convert.NewPlan(t.Context(), source, convert.Options{Recipe: packed.Recipe{Golden: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	target := filepath.Join(t.TempDir(), "packed.safetensors")
	if _, err := p.Run(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "down_proj.qweight", "down_proj.scales"} {
		other := filepath.Join(t.TempDir(), "checkpoint")
		if err := os.CopyFS(other, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(weights)
		for _, x := range h.Tensors {
			if suffix != "" && strings.HasSuffix(x.Name, "layers.0.mlp."+suffix) {
				changed[h.DataStart+x.Begin] ^= 1
			}
		}
		if err := os.Remove(filepath.Join(other, "model.safetensors")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other, "model.safetensors"), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := verify.Run(t.Context(), target, verify.Options{Level: verify.Source, Source: other})
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, c := range r.Checks {
			if c.Verdict == verify.Fail && c.Group == "codes and scales" {
				failed = append(failed, c.Name)
			}
		}
		if want := strings.Count(suffix, "down_proj"); len(failed) != want {
			t.Errorf("%q changed: %v fail", suffix, failed)
		}
	}
}
