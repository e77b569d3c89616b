package export

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// wideBitnet is a BitNet with squared ReLU whose rows are long enough for all block types.
func wideBitnet(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bitnet")
	tinymodel.MiniatureWith(t, "bitnet-2b4t", dir, func(o *synth.Options) {
		for from, to := range map[string]string{
			`"hidden_size": 2560`:       `"hidden_size": 512`,
			`"intermediate_size": 6912`: `"intermediate_size": 1000`,
			`"num_hidden_layers": 30`:   `"num_hidden_layers": 2`,
			`"num_attention_heads": 20`: `"num_attention_heads": 8`,
			`"num_key_value_heads": 5`:  `"num_key_value_heads": 4`,
			`"vocab_size": 128256`:      `"vocab_size": 320`,
			`"bos_token_id": 128000`:    `"bos_token_id": 1`,
			`"eos_token_id": 128001`:    `"eos_token_id": 2`,
		} {
			o.Config = bytes.ReplaceAll(o.Config, []byte(from), []byte(to))
		}
		o.Mini, o.Stop = false, nil
	})
	return packedOf(t, dir, packed.Recipe{})
}

// TestDialects: a BitNet with squared ReLU is exported for the programs that support it, in their block types and
// architecture, and is imported with the same codes and scales.
func TestDialects(t *testing.T) {
	source := wideBitnet(t)
	for dialect, want := range map[Dialect]string{IK: "IQ2_BN", BitnetCpp: "I2_S"} {
		target := filepath.Join(t.TempDir(), "m.gguf")
		s, err := GGUF(t.Context(), source, target, GGUFOptions{Dialect: dialect})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyGGUF(t.Context(), target, source); err != nil {
			t.Error(err)
		}
		h := headerOf(t, target)
		arch, _ := h.Get("general.architecture")
		if name, _ := arch.Text(); name != "bitnet-b1.58" ||
			strings.Contains(strings.Join(s.Notes, ""), "2024") != (dialect == BitnetCpp) {
			t.Errorf("%s: architecture %s, notes %q", dialect, name, s.Notes)
		}
		for _, x := range h.Tensors {
			switch kind := x.Type.String(); {
			case strings.HasSuffix(x.Name, ".scale"):
				t.Errorf("%s: tensor %s, which its queries, keys and values do not read", dialect, x.Name)
			// 1000 columns
			case strings.HasSuffix(x.Name, "attn_q.weight") && kind != want,
				strings.HasSuffix(x.Name, "ffn_down.weight") && kind != "F16":
				t.Errorf("%s: %s is %s", dialect, x.Name, kind)
			}
		}
		same(t, source, packedOf(t, target, packed.Recipe{}))
	}
	if _, err := GGUF(t.Context(), source, filepath.Join(t.TempDir(), "m.gguf"),
		GGUFOptions{Dialect: "x"}); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}

// TestZeroPoints: unsigned codes with zero points, as their first programs packed them, are exact in a block type.
func TestZeroPoints(t *testing.T) {
	for name, want := range map[string]string{
		"gptq-b2-asym-g64-v1":  "Q4_0",
		"ct-pack-b3-asym-g64":  "Q4_0", // −4 … 3 less −4 … 3,
		"awq-gemm-g128":        "Q5_0",
		"gptq-b4-asym-g128-v1": "Q5_0",
		"gptq-b4-sym-g128":     "Q4_0",
	} {
		path, _ := exported(t, packedOf(t, shared.Path(t, filepath.Join("data", "packed", name)), packed.Recipe{}))
		for _, x := range headerOf(t, path).Tensors {
			if x.Name == "blk.1.attn_q.weight" && x.Type.String() != want {
				t.Errorf("%s: %s", name, x.Type)
			}
		}
	}
}

// TestHolds: block types refuse the first code and the first scale that they do not hold.
func TestHolds(t *testing.T) {
	four, eight := pack.Int4, pack.Int8
	of := func(scale float32, zeros ...int8) units {
		u := units{scales: make([]float32, max(1, len(zeros))), zeros: zeros, perRow: 1}
		for i := range u.scales {
			u.scales[i] = scale
		}
		return u
	}
	least := func(u units, minimum float32) units {
		u.minima = []float32{minimum}
		return u
	}
	for name, c := range map[string]struct {
		kind string
		a    pack.Alphabet
		u    units
		want bool
	}{
		"Q4_1":                  {"Q4_1", four, of(0.5, -3), true},
		"Q4_1 without zeros":    {"Q4_1", four, of(0.5), false},
		"Q4_1, its minimum":     {"Q4_1", four, of(1+1.0/1024, 0, -5), false}, // 3 + 3/1024 has 12 bits
		"Q4_1, its scale":       {"Q4_1", four, of(1+1.0/4096, 0), false},
		"Q4_1, eight bits":      {"Q4_1", eight, of(0.5, 0), false},
		"Q4_1, minima":          {"Q4_1", four, least(of(0.5, -8), -1.75), true},
		"Q4_1, a wide minimum":  {"Q4_1", four, least(of(0.5, -8), 1+1.0/4096), false},
		"Q4_1, minima of −1":    {"Q4_1", pack.Ternary, least(of(0.5, -1), -1), true},
		"Q4_1, three bits":      {"Q4_1", pack.Int3, least(of(1+1.0/1024, -4), -1), true}, // the weight of −4
		"Q8_0, minima":          {"Q8_0", four, least(of(0.5, -8), -1.75), false},
		"Q5_0, minima":          {"Q5_0", four, least(of(0.5, -8), -1.75), false},
		"Q5_0":                  {"Q5_0", four, of(1+1.0/1024, -8, 8), true},
		"Q5_0, a zero too low":  {"Q5_0", four, of(0.5, 0, -9), false},
		"Q5_0, a zero too high": {"Q5_0", four, of(0.5, 9), false},
		"Q5_0, its scale":       {"Q5_0", four, of(1+1.0/4096, 3), false},
		"Q8_0":                  {"Q8_0", four, of(0.5, -119, 119), true},
		"Q8_0, a zero too low":  {"Q8_0", four, of(0.5, -121), false},
		"Q8_0, eight bits":      {"Q8_0", eight, of(0.5, 1), false},
		"Q4_0, a zero point":    {"Q4_0", four, of(0.5, 1), false},
		"IQ2_BN":                {"IQ2_BN", pack.Ternary, of(1 + 1.0/4096), true},
		"IQ2_BN, zero points":   {"IQ2_BN", pack.Ternary, of(0.5, 1), false},
		"I2_S, a scale per row": {"I2_S", pack.Ternary, of(0.5), false},
	} {
		for kind, b := range blockTypes {
			if kind.String() == c.kind && b.holds(c.a, c.u, false) != c.want {
				t.Errorf("%s: %v", name, !c.want)
			}
		}
	}
}

// TestThreeForms: a 1-bit model as safetensors, as the quantizer of MLX packs it, and as GGUF has the same codes in all
// three.
func TestThreeForms(t *testing.T) {
	source := packedOf(t, shared.Path(t, "data/packed/bonsai-bit1-f16-tied"), packed.Recipe{})
	mlx := packedOf(t, shared.Path(t, "data/packed/mlx-bonsai-bit1-f16-tied"), packed.Recipe{})
	path, _ := exported(t, mlx)
	sameCodes(t, source, mlx)
	sameCodes(t, source, packedOf(t, path, packed.Recipe{}))
}

// sameCodes demands that b has exactly the entries of a, with the same codes.
func sameCodes(t *testing.T, a, b string) {
	t.Helper()
	x, err := packed.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := packed.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	for _, e := range x.Manifest().Packed {
		if o, ok := y.Manifest().Entry(e.Name); !ok || o.CodesSHA != e.CodesSHA {
			t.Errorf("%s: %s: other codes: %v", b, e.Name, ok)
		}
	}
	if n := len(x.Manifest().Packed); n < 15 || n != len(y.Manifest().Packed) {
		t.Errorf("%d and %d entries", n, len(y.Manifest().Packed))
	}
}
