package model_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// comparison is how many forms of a family have been compared with transformers, and the largest median and
// maximum of |Δ| of logits over their standard deviation. docs/MODELS.md shows it.
type comparison struct {
	Forms  int     `json:"forms"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
}

// comparisons are those of the tests that run, by family.
var comparisons = map[string]map[string]comparison{}

// compared counts a form of the test that runs.
func compared(t *testing.T, family string, median, most float64) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if comparisons[test] == nil {
		comparisons[test] = map[string]comparison{}
	}
	c := comparisons[test][family]
	comparisons[test][family] = comparison{c.Forms + 1, max(c.Median, median), max(c.Most, most)}
}

// recordComparisons holds the comparisons of a test, at its end, against testdata/transformers/compared.json, and
// renews them there when forms came or went or logits are further apart. Float32 of transformers depends on the CPU, so
// up to twice the recorded distance is the same.
func recordComparisons(t *testing.T) {
	t.Helper()
	if t.Failed() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	path := shared.Testdata(t, "transformers/compared.json")
	all := map[string]map[string]comparison{}
	readJSON(t, path, &all)
	got, same := comparisons[t.Name()], true
	for family, g := range got {
		w := all[t.Name()][family]
		same = same && g.Forms == w.Forms && g.Median <= 2*w.Median && g.Most <= 2*w.Most
		got[family] = comparison{g.Forms, roundedUp(g.Median), roundedUp(g.Most)}
	}
	if same && len(got) == len(all[t.Name()]) {
		return
	}
	all[t.Name()] = got
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s was not what transformers computes, and now is: look at the difference, and make generate", path)
}

// roundedUp has two digits.
func roundedUp(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Ceil(x/unit) / math.Round(1/unit)
}
