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

// TestRuntimes: the charts of the README and the tables of docs/BENCHMARKS.md are up to date with docs/benchmarks.
func TestRuntimes(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(shared.Testdata(t, "../docs/"+name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var r *Runtimes
	document := read("BENCHMARKS.md")
	for _, name := range []string{"smollm2", "speculation", "conversion", "runtimes"} {
		var err error
		if r, err = ReadRuntimes(read("benchmarks/" + name + ".json")); err != nil {
			t.Fatal(err)
		}
		if fresh, err := r.Into(document); err != nil || !bytes.Equal(fresh, document) {
			t.Errorf("the tables of docs/BENCHMARKS.md from %s.json are stale: make generate (%v)", name, err)
		}
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

// TestRuntimesRefusals: inconsistent figures give no chart.
func TestRuntimesRefusals(t *testing.T) {
	good := `{"schema": "lowpack.bench.runtimes/1", "shape": "s", "machines": [{"cpu": "c", "isa": "i", "date": "d", "rows": [
		{"runtime": "r", "revision": "v", "weights": "w", "head": "h", "mb_per_token": 1, "figures": {"pp512": {"median": 2, "min": 1, "max": 3, "runs": 2}}}]}]}`
	if _, err := ReadRuntimes([]byte(good)); err != nil {
		t.Fatal(err)
	}
	row := good[strings.Index(good, `{"runtime"`) : len(good)-len("]}]}")]
	if _, err := ReadRuntimes([]byte(strings.Replace(good, row, row+","+row, 1))); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("two rows of one kind: %v", err)
	}
	for from, to := range map[string]string{`"median": 2`: `"median": 4`, `"min": 1`: `"min": 0`,
		`"runs": 2`:  `"runs": -1`,
		`runtimes/1`: `runtimes/2`,
		`"shape"`:    `"columns": ["a"], "shape"`,
		`"machines"`: `"forms"`,
		`}]}`:        `}]`} {
		if _, err := ReadRuntimes([]byte(strings.Replace(good, from, to, 1))); !errors.Is(err, pack.ErrCorrupt) &&
			!errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestRuntimeTables: a table per test with the machines side by side and one median per cell, then a table per machine
// with revisions and ranges. They replace the text between two marker lines of a document, and nothing else.
func TestRuntimeTables(t *testing.T) {
	figure := func(x float64) Figure { return Figure{x, x - 1, x + 1, 3} }
	r := &Runtimes{Machines: []RuntimeMachine{
		{CPU: "One", ISA: "A", Date: "D",
			Rows: []RuntimeRow{{"r", "v1", "w", "h", 849,
				map[string]Figure{"pp512": figure(5), "8 sequences": figure(9)}}}},
		{CPU: "Two", ISA: "B", Date: "E",
			Rows: []RuntimeRow{{"s", "v2", "w", "h", 0, map[string]Figure{"pp512": figure(6)}},
				{"r", "v3", "w", "h", 7, map[string]Figure{"pp512": figure(7)}}}},
	}}
	want := `**pp512**, tokens per second

| Runtime | Weights | Head | One | Two |
|---|---|---|---|---|
| r | w | h | 5 | 7 |
| s | w | h | – | 6 |

**8 sequences**, tokens per second

| Runtime | Weights | Head | One |
|---|---|---|---|
| r | w | h | 9 |

**One** (A), D: minimum–maximum, number of runs

| Runtime | Revision | Weights | Head | MB/token | pp512 | 8 sequences |
|---|---|---|---|---|---|---|
| r | v1 | w | h | 849 | 4–6, 3 | 8–10, 3 |

**Two** (B), E: minimum–maximum, number of runs

| Runtime | Revision | Weights | Head | MB/token | pp512 |
|---|---|---|---|---|---|
| s | v2 | w | h | – | 5–7, 3 |
| r | v3 | w | h | 7 | 6–8, 3 |
`
	if got := r.Markdown(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	got, err := r.Into([]byte("before\n" + TablesBegin + "\nold\n" + TablesEnd + "\nafter\n"))
	if err != nil || string(got) != "before\n"+TablesBegin+"\n\n"+want+"\n"+TablesEnd+"\nafter\n" {
		t.Errorf("%s, %v", got, err)
	}
	if chart := r.Plot("8 sequences"); len(chart.Groups) != 1 || len(chart.Series) != 1 {
		t.Errorf("a chart of %v with %d series", chart.Groups, len(chart.Series))
	}
	r.Name, r.Unit, r.Columns, r.Machines = "size", "bytes", []string{"X", "Y",
		"Z"}, []RuntimeMachine{{CPU: "One", ISA: "A", Date: "D",
		Rows: []RuntimeRow{{"r", "v", "w", "h", 0,
			map[string]Figure{"t": {Median: 2, Min: 2, Max: 2}, "u": {Median: 3, Runs: 4}}}}}}
	document := []byte(TablesBegin + "\n" + TablesEnd +
		"\n<!-- bench chart size -->\n<!-- end of bench chart size -->\n")
	want = string(document[:len(TablesBegin)+len(TablesEnd)+2]) + `<!-- bench chart size -->

**t**, bytes

| X | Y | Z | One |
|---|---|---|---|
| r | w | h | 2 |

**u**, bytes

| X | Y | Z | One |
|---|---|---|---|
| r | w | h | 3 |

**One** (A), D: minimum–maximum, number of runs

| X | Revision | Y | Z | t | u |
|---|---|---|---|---|---|
| r | v | w | h | 2–2 | –, 4 |

<!-- end of bench chart size -->
`
	if got, err = r.Into(document); err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	r.Name = ""
	for _, document := range []string{"", TablesBegin, TablesEnd, TablesEnd + "\n" + TablesBegin} {
		if _, err := r.Into([]byte(document)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %v", document, err)
		}
	}
}
