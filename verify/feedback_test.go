package verify

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// randomText has words of random letters.
func randomText(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "etaoinshrdlu     "[r.IntN(17)]
	}
	return string(b)
}

// TestErrorFeedback: whatever codes error feedback chooses, the file that holds them has the weights of its source, as
// far as a bound can tell (N38). The bundled model, whose MLPs have columns that hardly any token reaches, would exceed
// it by far.
func TestErrorFeedback(t *testing.T) {
	text := []convert.Document{{Text: randomText(rand.New(rand.NewPCG(3, 22)), 2000)}}
	sources := map[string][]string{shared.Testdata(t, "tiny-bitnet"): {"*layers.[01].*"}}
	for _, like := range []string{"llama-3.2-1b", "gemma-2-2b", "olmoe-1b-7b"} {
		source := filepath.Join(t.TempDir(), like)
		tinymodel.Miniature(t, like, source)
		sources[source] = nil
	}
	quants, scales := []string{"int3"}, []string{"group:32"}
	if long.All {
		quants, scales = []string{"int2", "int3", "int4"}, []string{"group:32", "row"}
	}
	for source, include := range sources {
		for _, quant := range quants {
			for _, scale := range scales {
				path := filepath.Join(t.TempDir(), "m.safetensors")
				p, err := convert.NewPlan(context.Background(), source, convert.Options{Calibration: text,
					Method: packed.GPTQ, Recipe: packed.Recipe{Quant: quant, Scale: scale, Golden: "none",
						AllowLossy: true, Include: include}})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if _, err := p.Run(context.Background(), path); err != nil {
					t.Fatal(err)
				}
				if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
					t.Errorf("%s in %s, a scale per %s: %v", filepath.Base(source), quant, scale, bad)
				}
			}
		}
	}
}
