package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// example is the plan of a report: two models, the second of which lowpack alone has.
func example() *Report {
	return &Report{Schema: ReportSchema, Name: "One", Host: Host{Tool: "lowpack 9", Go: "go9", CPU: "C",
		Platform: "p/q", ISAs: host().ISAs[:1]}, Revision: "0123456789+dirty", Date: "2026-01-02", Threads: 2,
		Rounds: 2,
		Works:  []Work{{"m", Prompt, 8, 1}, {"m", Convert, 0, 0}, {"n", Generate, 4, 2}},
		Forms: []Form{{"m", Lowpack, "", "w", "h"}, {"m", "other", "v1", "x", "y"}, {"n", Lowpack, "", "w", "h"},
			{"m", Lowpack, "", "w", "narrow"}}}
}

// fill measures a report with runners whose speeds are known, at most so many turns.
func fill(t *testing.T, r *Report, most int) (order string) {
	t.Helper()
	p := Reporter{More: func() bool { most--; return most >= 0 }, Progress: func(int, int, string) {}}
	saved := 0
	p.Save = func(r *Report) error { saved++; return nil }
	for i := range r.Forms {
		p.Runners = append(p.Runners, func(_ context.Context, w Work) (float64, float64, error) {
			order += string(rune('a'+i)) + w.What[:1]
			return float64(100 / (i + 1)), 200, nil
		})
	}
	before := len(r.Samples)
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if saved != len(r.Samples)-before {
		t.Errorf("saved %d times for %d turns", saved, len(r.Samples)-before)
	}
	return order
}

// TestReport: forms of a work follow one another, in the opposite order in the second round; work on files is done in
// lowpack's first form alone. What is interrupted goes on where it was, through the JSON form, and no turn is made
// twice.
func TestReport(t *testing.T) {
	whole := example()
	const want = "apbpdp" + "ac" + "cg" + "dpbpap" + "ac" + "cg"
	if got := fill(t, whole, 100); got != want || len(whole.Missing()) != 0 {
		t.Errorf("turns %s, want %s; missing %v", got, want, whole.Missing())
	}
	r, order := example(), ""
	for range 4 {
		order += fill(t, r, 3)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = ReadReport(text); err != nil {
			t.Fatal(err)
		}
	}
	if order != want || len(r.Missing()) != 0 {
		t.Errorf("turns %s, want %s", order, want)
	}
	if err := r.Same(example()); err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	failing := func(context.Context, Work) (float64, float64, error) { return 0, 0, failed }
	p := Reporter{More: func() bool { return true }, Progress: func(int, int, string) {},
		Runners: slices.Repeat([]Runner{failing}, 4)}
	err := p.Run(t.Context(), example())
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), "m, prompt of 8") {
		t.Error(err)
	}
}

// TestReportSame: samples of another machine, version or plan are not put together.
func TestReportSame(t *testing.T) {
	for what, change := range map[string]func(*Report){
		"machine":              func(r *Report) { r.Host.CPU = "D" },
		"choice of kernels":    func(r *Report) { r.Host.Choices = "2026-11-29" },
		"name":                 func(r *Report) { r.Name = "Two" },
		"version of lowpack":   func(r *Report) { r.Host.Go = "go10" },
		"revision of lowpack":  func(r *Report) { r.Revision = "1" },
		"number of threads":    func(r *Report) { r.Threads = 3 },
		"size of the models":   func(r *Report) { r.Mini = true },
		"list of work":         func(r *Report) { r.Works[0].Tokens = 9 },
		"list of runtimes and": func(r *Report) { r.Forms[1].Version = "v2" },
	} {
		r := example()
		change(r)
		if err := r.Same(example()); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReadReport: inconsistent samples are refused.
func TestReadReport(t *testing.T) {
	good := Sample{Round: 1, Work: 2, Form: 2, Rate: 1, Limit: 2}
	read := func(list ...Sample) error {
		r := example()
		r.Samples = list
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadReport(text)
		return err
	}
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Sample){
		"a round":       func(s *Sample) { s.Round = 2 },
		"no round":      func(s *Sample) { s.Round = -1 },
		"a work":        func(s *Sample) { s.Work = 3 },
		"a form":        func(s *Sample) { s.Form = 4 },
		"another model": func(s *Sample) { s.Form = 0 },
		"files, other":  func(s *Sample) { s.Work, s.Form = 1, 1 },
		"no rate":       func(s *Sample) { s.Rate = 0 },
		"no limit":      func(s *Sample) { s.Limit = -1 },
	} {
		s := good
		change(&s)
		if err := read(s); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := read(good, good); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("twice: %v", err)
	}
	if _, err := ReadReport([]byte(`{"schema": "lowpack.bench.report/2"}`)); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}

// TestReportTables: a row for each form of each work, with the ratio of lowpack's first form to it, between two marker
// lines of a document; of two reports of one machine the newer one.
func TestReportTables(t *testing.T) {
	r := example()
	fill(t, r, 100)
	for i := range r.Samples {
		r.Samples[i].Others = 0.2
		if s := &r.Samples[i]; s.Form == 1 && s.Round == 1 {
			s.Rate = 25
		}
	}
	r.Busy = true
	old := example()
	old.Date = "2026-01-01"
	want := `### One

2026-01-02: C, ` + string(r.Host.ISAs[0]) + `, p/q, 2 threads. lowpack 9 01234567+dirty, go9; other v1. **Beside other work**, which took 20 % of the processors: compare rows with one another alone.

| Model | Work | Runtime | Weights | Head | Rate | Range, turns | Of the limit | lowpack to it |
|---|---|---|---|---|---|---|---|---|
| m | prompt of 8 | lowpack | w | h | 100 | 100–100, 2 | 0.50 | 1.00 |
| m | prompt of 8 | other | x | y | 37.5 | 25.0–50.0, 2 | 0.19 | 3.00 |
| m | prompt of 8 | lowpack | w | narrow | 25.0 | 25.0–25.0, 2 | 0.12 | 4.00 |
| m | convert, GB/s | lowpack | w | h | 100 | 100–100, 2 | 0.50 | 1.00 |
| n | generate 2 × 4 | lowpack | w | h | 33.0 | 33.0–33.0, 2 | 0.17 | 1.00 |
`
	list := Newest([]*Report{old, r})
	if got := Markdown(list); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	got, err := Into([]byte("before\n"+TablesBegin+"\nold\n"+TablesEnd+"\nafter\n"), list)
	if err != nil || string(got) != "before\n"+TablesBegin+"\n\n"+want+"\n"+TablesEnd+"\nafter\n" {
		t.Errorf("%s, %v", got, err)
	}
	got, err = Into([]byte(TablesBegin+"\n"+TablesEnd+"\n"), nil)
	if err != nil || !strings.Contains(string(got), "No machine has been measured") {
		t.Errorf("%s, %v", got, err)
	}
	for _, document := range []string{"", TablesBegin, TablesEnd, TablesEnd + "\n" + TablesBegin} {
		if _, err := Into([]byte(document), list); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %v", document, err)
		}
	}
	r.Forms = append(r.Forms, Form{Model: "n", Runtime: "of another model"})
	chart := Plot(list, "m, prompt of 8")
	if len(chart.Groups) != 1 || len(chart.Series) != 2 || chart.Series[0].Values[0] != 100 ||
		chart.Series[1].Values[0] != 37.5 {
		t.Errorf("%+v", chart)
	}
}

// TestBenchmarks: the tables of docs/BENCHMARKS.md are those of docs/benchmarks, where each file is a whole measurement
// of models of full size, and the page is short.
func TestBenchmarks(t *testing.T) {
	docs := shared.Testdata(t, "../docs")
	files, err := filepath.Glob(filepath.Join(docs, "benchmarks", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*Report
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadReport(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Mini || len(r.Missing()) > 0 || strings.Contains(r.Revision, "dirty") {
			t.Errorf("%s: tiny models, turns that are missing, or a program that no revision makes", file)
		}
		list = append(list, r)
	}
	page, err := os.ReadFile(filepath.Join(docs, "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if fresh, err := Into(page, Newest(list)); err != nil || !bytes.Equal(fresh, page) {
		t.Errorf("the tables of docs/BENCHMARKS.md are stale: make generate (%v)", err)
	}
	words := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") {
			words += len(strings.Fields(line))
		}
	}
	if words > 1500 {
		t.Errorf("docs/BENCHMARKS.md has %d words beside its tables; want 1,500 at most", words)
	}
}

// TestBatched: work in the words of llama-batched-bench, and the speeds in what its versions print.
func TestBatched(t *testing.T) {
	for want, w := range map[string]Work{
		"-t 2 -c 768 -b 2048 -ub 512 -npp 512 -ntg 1 -npl 1":  {"", Prompt, 512, 1},
		"-t 2 -c 768 -b 2048 -ub 512 -npp 512 -ntg 32 -npl 1": {"", Context, 512, 1},
		"-t 2 -c 256 -b 2048 -ub 512 -npp 1 -ntg 64 -npl 1":   {"", Generate, 64, 1},
		"-t 2 -c 768 -b 2048 -ub 512 -npp 1 -ntg 16 -npl 32":  {"", Generate, 16, 32},
	} {
		if got := strings.Join(batchedArgs(w, 2), " "); got != want {
			t.Errorf("%v: %s, want %s", w, got, want)
		}
	}
	const head = "" +
		"|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |\n" +
		"|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
	const row = "|   512 |     32 |    1 |    544 |    5.000 |   102.40 |    2.000 |    16.00 |    7.000 |    77.71 |\n"
	prefill, decode, err := batchedSpeeds([]byte("| log |\n" + head + row + "\ntimings\n"))
	if err != nil || prefill != 102.4 || decode != 16 {
		t.Error(prefill, decode, err)
	}
	for _, out := range []string{"", head, row, strings.Replace(head, "S_PP", "PP", 1) + row,
		head + strings.Replace(row, "102.40", "nan", 1), head + strings.Replace(row, "16.00", "0.00", 1)} {
		if _, _, err := batchedSpeeds([]byte(out)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %v", out, err)
		}
	}
}

// TestTicks: what is neither idle nor of this process is of others; without knowledge it is not taken for nothing.
func TestTicks(t *testing.T) {
	if got := (ticks{100, 50, 10}).others(ticks{200, 80, 50}); got != 0.3 {
		t.Error(got)
	}
	if got := (ticks{}).others(ticks{}); got != -1 {
		t.Error(got)
	}
	if got := numbers("cpu  1 2 3"); !slices.Equal(got, []float64{1, 2, 3}) {
		t.Error(got)
	}
}

// TestDigits: tables and reports show speeds and times alike.
func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{1234.4: "1234", 100: "100", 99.94: "99.9", 10: "10.0", 9.994: "9.99",
		1: "1.00", 0.98765: "0.988", 0.0521: "0.0521", 0.5: "0.5", 0: "0"} {
		if got := Digits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
