package bench

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestRuntimes: the charts of the README and the tables of docs/BENCHMARKS.md are those of docs/benchmarks/runtimes.json.
func TestRuntimes(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(shared.Testdata(t, "../docs/"+name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	r, err := ReadRuntimes(read("benchmarks/runtimes.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(read("BENCHMARKS.md")), r.Markdown()) {
		t.Errorf("docs/BENCHMARKS.md lacks this table of docs/benchmarks/runtimes.json:\n%s", r.Markdown())
	}
	for _, test := range []string{"pp512", "tg128"} {
		var svg bytes.Buffer
		if err := plot.SVG(&svg, r.Plot(test)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(svg.Bytes(), read("benchmarks/"+test+".svg")) {
			t.Errorf("docs/benchmarks/%s.svg is stale: make generate", test)
		}
	}
}

// TestRuntimesRefusals: figures that contradict themselves give no chart.
func TestRuntimesRefusals(t *testing.T) {
	good := `{"schema": "lowpack.bench.runtimes/1", "shape": "s", "machines": [{"cpu": "c", "isa": "i", "date": "d", "rows": [
		{"runtime": "r", "revision": "v", "weights": "w", "head": "h", "mb_per_token": 1, "figures": {"pp512": {"median": 2, "min": 1, "max": 3, "runs": 2}}}]}]}`
	if _, err := ReadRuntimes([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`"median": 2`: `"median": 4`, `"min": 1`: `"min": 0`, `"runs": 2`: `"runs": 0`, `runtimes/1`: `runtimes/2`, `"shape"`: `"form"`, `}]}`: `}]`} {
		if _, err := ReadRuntimes([]byte(strings.Replace(good, from, to, 1))); !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", to, err)
		}
	}
}
