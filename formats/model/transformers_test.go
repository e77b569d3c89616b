package model_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// transformersBound bounds |Δ| of logits over their standard deviation: float32 here against float64 in transformers.
// Measured: at most 4.9e-6, with int8 activations 2.1e-6.
const transformersBound = 1e-5

// flipped lists miniatures in which float32 rounds one activation to another int8 code than float64 does. From its
// position on all logits differ: by at most the bound for a code, and by the other bound at the median. Measured:
// 3.6e-2, and 7.9e-4.
var flipped = map[string]bool{"gemma3": true, "packed-llama-autobitlinear-offline": true}

const flippedMost, flippedMedian = 1e-1, 2e-3

// wideMost is the maximum bound for the miniature whose experts are random MXFP4 elements, up to 6: it amplifies
// rounding errors. Measured: 1.1e-5 here, 2.5e-7 at the median; transformers in float32: 8.3e-6 and 4.1e-7. The cause
// is the order of additions in dot products: dot products in float64, all else unchanged, give 5.3e-6; the weighted
// sums of attention in float64 7.9e-6; softmax of the router, exp, the gate or norms in float64 change nothing.
const wideMost, wide = 1.5e-5, "gpt_oss_mxfp4"

// deltaMost is the maximum bound for gated delta rules, which transformers computes in float32 though the model is
// float64, in chunks. Measured: 3.2e-5, at the median 1.6e-6; its prompts and single steps differ by as much.
const deltaMost = 6e-5

// statesMost is the maximum bound for models with Mamba layers and for Mamba-2 alone: single logits amplify roundings.
// Measured for Mamba: 1.9e-5, at the median 1.5e-6; transformers in float32: 1.1e-4 and 2.9e-6; in float64, but for
// states and residuals, 2.1e-5 and 4.7e-7. For Mamba-2: 2.7e-5 and 5.3e-7; 1.6e-5 and 8.9e-7; 7.1e-6 and 2.9e-7.
const statesMost = 5e-5

// TestTransformers: the miniatures that transformers saved and ran give the same logits here, with float activations
// and with int8 activations, or are rejected with the name of their architecture.
func TestTransformers(t *testing.T) {
	root := shared.Path(t, "data/transformers")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, e := range dirs {
		dir := filepath.Join(root, e.Name())
		architecture, supported := architectureOf(t, dir)
		t.Run(e.Name(), func(t *testing.T) {
			if !supported {
				refusedByName(t, dir, architecture)
				return
			}
			ran++
			transformersLogits(t, dir)
		})
	}
	if ran < 23 {
		t.Errorf("%d of %d miniatures are of supported architectures", ran, len(dirs))
	}
	recordComparisons(t)
}

func architectureOf(t *testing.T, dir string) (name string, supported bool) {
	t.Helper()
	var config struct{ Architectures []string }
	readJSON(t, filepath.Join(dir, "config.json"), &config)
	for _, f := range model.Families() {
		supported = supported || slices.Contains(f.Architectures, config.Architectures[0])
	}
	return config.Architectures[0], supported
}

func refusedByName(t *testing.T, dir, architecture string) {
	t.Helper()
	p, err := convert.NewPlan(t.Context(), dir, convert.Options{Recipe: packed.Recipe{Golden: "none"}})
	if err == nil {
		p.Close()
	}
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), architecture) {
		t.Errorf("%v", err)
	}
}

func transformersLogits(t *testing.T, dir string) {
	t.Helper()
	var tokens []int
	readJSON(t, filepath.Join(dir, "tokens.json"), &tokens)
	v, d := packMini(t, dir)
	files := 0
	for _, c := range []struct {
		file string
		view packed.View
	}{{"logits.npy", dequantize(t, v)}, {"logits_a8.npy", v}} {
		want, ok := readNPY(t, filepath.Join(dir, c.file))
		if !ok {
			continue
		}
		boundMedian, boundMost := transformersBound, transformersBound
		if filepath.Base(dir) == wide {
			boundMost = wideMost
		}
		if d.Recurrent() == model.GatedDelta {
			boundMost = deltaMost
		}
		states := d.AttentionLayers() == 0 && !d.Blocks[0].HasMLP()
		if r := d.Recurrent(); r == model.Mamba || r == model.Mamba2 && states {
			boundMost = statesMost
		}
		if c.file == "logits_a8.npy" && flipped[filepath.Base(dir)] {
			boundMedian, boundMost = flippedMedian, flippedMost
		}
		files++
		for who, got := range map[string][][]float32{"reference": judged(t, c.view, d, tokens),
			"engine": engineLogits(t, c.view, tokens)} {
			median, most, agree := deviation(t, got, want)
			if c.file == "logits.npy" && who == "engine" {
				compared(t, d.Family, median, most)
			}
			t.Logf("%s, %s: median %.2g, at most %.2g, arg-max %d of %d", c.file, who, median, most, agree, len(tokens))
			if median > boundMedian || most > boundMost || agree < len(tokens) {
				t.Errorf("%s, %s: |Δ| over the standard deviation is %.2g at the median and %.2g at most, of %.2g and "+
					"%.2g; arg-max agrees at %d of %d positions",
					c.file, who, median, most, boundMedian, boundMost, agree, len(tokens))
			}
		}
	}
	if files == 0 {
		t.Error("no logits to compare with")
	}
}

// deviation compares logits in units of the standard deviation of all expected logits.
func deviation(t *testing.T, got [][]float32, want [][]float64) (median, most float64, agree int) {
	t.Helper()
	var all []float64
	sum, squares := 0.0, 0.0
	for i, row := range want {
		if len(got[i]) != len(row) {
			t.Fatalf("%d logits, not %d", len(got[i]), len(row))
		}
		best, wantBest := 0, 0
		for j, w := range row {
			all = append(all, math.Abs(float64(got[i][j])-w))
			sum, squares = sum+w, squares+w*w
			if got[i][j] > got[i][best] {
				best = j
			}
			if w > row[wantBest] {
				wantBest = j
			}
		}
		if best == wantBest {
			agree++
		}
	}
	slices.Sort(all)
	n := float64(len(all))
	std := math.Sqrt(squares/n - (sum/n)*(sum/n))
	return all[len(all)/2] / std, all[len(all)-1] / std, agree
}

// readNPY reads a matrix of little-endian float32 in NumPy's format 1.0.
func readNPY(t *testing.T, path string) (rows [][]float64, ok bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	end := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	var m, n int
	header := string(data[10:end])
	at := strings.Index(header, "'shape': ")
	if _, err := fmt.Sscanf(header[at:], "'shape': (%d, %d)", &m, &n); err != nil ||
		!strings.Contains(header, "'<f4', 'fortran_order': False") || len(data)-end != 4*m*n {
		t.Fatalf("%s: %q: %v", path, header, err)
	}
	for data = data[end:]; len(data) > 0; data = data[4*n:] {
		row := make([]float64, n)
		for j := range row {
			row[j] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*j:])))
		}
		rows = append(rows, row)
	}
	return rows, true
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
