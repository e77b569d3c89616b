package convert

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// TestSherry: weights that Sherry made, of which every fourth is 0, are found to be ternary, with its codes, in its
// units.
func TestSherry(t *testing.T) {
	data, err := os.ReadFile("testdata/sherry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Shape []int64
		DType safetensors.DType
		Cases []struct{ Unit, Weights, Codes string }
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Cases) != 4 {
		t.Fatalf("%d cases", len(vectors.Cases))
	}
	for _, c := range vectors.Cases {
		b, err := hex.DecodeString(c.Weights)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "weights.safetensors")
		writeWeights(t, path, map[string]raw{"w": {dtype: vectors.DType, shape: vectors.Shape, data: b}})
		f := convertTo(t, path, plain(packed.Recipe{}))
		e, ok := f.Manifest().Entry("w")
		if !ok || e.Quantizer != "ternary-values" || e.Scale.String() != c.Unit {
			t.Fatalf("%s: %+v", c.Unit, e)
		}
		m, err := packed.Codes(f, e, 0)
		if err != nil || len(m.Codes) != len(c.Codes) {
			t.Fatalf("%s: %d codes, %v", c.Unit, len(m.Codes), err)
		}
		zeros := 0
		for i, code := range m.Codes {
			if "-0+"[code+1] != c.Codes[i] {
				t.Errorf("%s: code %d is %d, want %c", c.Unit, i, code, c.Codes[i])
			}
			if code == 0 {
				zeros++
			}
		}
		if zeros != len(m.Codes)/4 {
			t.Errorf("%s: %d of %d codes are 0", c.Unit, zeros, len(m.Codes))
		}
	}
}
