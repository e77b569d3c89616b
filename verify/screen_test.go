package verify

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// screened is the bundled model with a screen of its head.
func screened(t testing.TB) string {
	return tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{Head: "screen"})
}

// scaled multiplies every n-th scale of the screen.
func (s *sealer) scaled(by float64, every int) []byte {
	b := bytes.Clone(s.good)
	p := s.tensor(packed.ScreenName + packed.ScaleSuffix)
	for at := p.begin; at < p.end; at += 4 * every {
		v := math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
		binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(float64(v)*by)))
	}
	return s.seal(b)
}

// TestForgedScreen: a screen that is not the output head (F21) is refused from the file alone. Its digests are right.
func TestForgedScreen(t *testing.T) {
	path := screened(t)
	s := newSealer(t, path)
	forgeries := map[string][]byte{"scales": s.scaled(1e-6, 1), "subnormal scales": s.scaled(1e-38, 1),
		"one scale, a little small": s.scaled(0.99, 1<<20)}
	code := bytes.Clone(s.good)
	code[s.tensor(packed.ScreenName+packed.PackedSuffix).begin+1000] ^= 2
	forgeries["a code"] = s.seal(code)
	for name, b := range forgeries {
		write(t, path, b)
		bad := failed(run(t, path, Options{}))
		if len(bad) != 1 || bad[0].Level != Codes || bad[0].Rule != "F21" || bad[0].Name != packed.ScreenName {
			t.Errorf("%s: %v", name, bad)
		}
	}
	write(t, path, s.good)
	if bad := failed(run(t, path, Options{Level: Codes})); len(bad) > 0 {
		t.Errorf("an honest screen: %v", bad)
	}
}

// TestFilter: the golden tokens and logits come through the candidate filter too, and where the screen lies level
// logits says so by itself.
func TestFilter(t *testing.T) {
	path := screened(t)
	logits := func() *session {
		s := begin(t.Context(), path, Options{}, Logits)
		t.Cleanup(s.close)
		if err := s.checkFile(); err != nil {
			t.Fatal(err)
		}
		if err := s.checkLogits(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	tops := map[string]int{}
	for _, c := range logits().report.Checks {
		if c.Group == filterGroup {
			_, top, _ := strings.Cut(c.Name, ", the largest ")
			tops[top]++
		}
		if c.Verdict != Pass {
			t.Error(c)
		}
	}
	// Every one of 89 positions, in a batch and by itself; 40 is top_k of generation_config.json.
	if tops["1"] != 2*89 || tops["20"] != 2*89 || len(tops) < 2 {
		t.Errorf("largest logits that were asked for: %v", tops)
	}
	write(t, path, newSealer(t, path).scaled(1e-6, 2))
	bad := failed(logits().report)
	if !slices.ContainsFunc(bad, func(c Check) bool { return c.Group == filterGroup }) {
		t.Errorf("a screen of other weights: %v", bad)
	}
}
