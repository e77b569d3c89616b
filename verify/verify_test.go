package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestText fixes what people read, of a good file and of a bad one. Kernels depend on the machine and are left out.
func TestText(t *testing.T) {
	path := file(t, small(t))
	text := func() string {
		var b bytes.Buffer
		if err := run(t, path, Options{Level: Codes}).Text(&b); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(b.String(), path, "FILE")
	}
	if d := cmp.Diff(`file    frame and manifest             1 passed
file    golden outputs                 1 passed
digest  packed tensors                 3 passed
digest  scales                         3 passed
digest  passthrough tensors and files  2 passed
digest  golden outputs                 1 passed
codes   codes                          3 passed
codes   scales                         3 passed
coverage: products of 0 of 73 rows; scales of 0 of 3 packed tensors; logits of 0 positions in 0 sequences; embeddings of 0 of 0 tokens; attention to 0 positions; tokens of 0 texts
PASS (weights only; no model)  FILE: 17 passed
`, text()); d != "" {
		t.Error(d)
	}
	s := newSealer(t, path)
	b := bytes.Clone(s.good)
	b[s.tensor("b.weight.packed").begin+5] ^= 4
	write(t, path, b)
	sums := strings.NewReplacer(s.tensor("b.weight.packed").digest, "OLD",
		sum(b[s.tensor("b.weight.packed").begin:s.tensor("b.weight.packed").end]), "NEW")
	if d := cmp.Diff(`file    frame and manifest             1 passed
file    golden outputs                 1 passed
digest  packed tensors                 2 passed, 1 failed
digest  scales                         3 passed
digest  passthrough tensors and files  2 passed
digest  golden outputs                 1 passed
codes   all checks                     skipped: a level before this one failed
digest: b.weight.packed: rule F17: SHA-256 is NEW, the manifest says OLD: the bytes are not those that were written
coverage: products of 0 of 73 rows; scales of 0 of 3 packed tensors; logits of 0 positions in 0 sequences; embeddings of 0 of 0 tokens; attention to 0 positions; tokens of 0 texts
FAIL  FILE: 10 passed, 1 failed, 1 skipped
`, sums.Replace(text())); d != "" {
		t.Error(d)
	}
}

// TestCoverage: what the golden outputs cover is said in every form, also where it is not all.
func TestCoverage(t *testing.T) {
	r := run(t, file(t, tinyModel(t)), Options{})
	want := Coverage{Rows: 2 * (24 + 8 + 8 + 24 + 40 + 40 + 24), AllRows: 2 * (24 + 8 + 8 + 24 + 40 + 40 + 24),
		Scaled: 14,
		Packed: 14, Tokens: 25, Vocab: 31, Positions: 89, Sequences: 3, Context: 64}
	if d := cmp.Diff(want, r.Coverage); d != "" {
		t.Error(d)
	}
	large := packed.Entry{Name: "large", Shape: []int{100000, 64}}
	if n := golden.Rows(&large, []golden.Product{{Rows: make([]int32, 64)}, {Rows: make([]int32, 64)}}); n != 64 {
		t.Errorf("%d rows of a tensor without digests", n)
	}
	var text, junit bytes.Buffer
	r.Text(&text)
	r.JUnit(&junit)
	for _, fact := range []string{"products of 336 of 336 rows", "scales of 14 of 14 packed tensors",
		"embeddings of 25 of 31 tokens", "logits of 89 positions in 3 sequences", "attention to 64 positions"} {
		if !strings.Contains(text.String(), fact) || !strings.Contains(junit.String(), fact) {
			t.Errorf("%q is not said", fact)
		}
	}
}

// TestManyFailures: a report of a file that is broken throughout stays readable.
func TestManyFailures(t *testing.T) {
	r := &Report{File: "FILE", Level: Digest}
	for range 25 {
		r.add(Check{Level: Digest, Group: "scales", Name: "x.scale", Verdict: Fail, Rule: "F17", Reason: "bad"})
	}
	var b bytes.Buffer
	r.Text(&b)
	if n := strings.Count(b.String(), "rule F17"); n != 10 ||
		!strings.Contains(b.String(), "digest: 15 more failures") {
		t.Errorf("%s", b.String())
	}
}

// TestMachineReports: JSON and JUnit hold every check.
func TestMachineReports(t *testing.T) {
	m := small(t)
	m.Quantized[1].Scales[4] = -1
	r := run(t, file(t, m), Options{})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, &back); d != "" {
		t.Error(d)
	}
	var b bytes.Buffer
	if err := r.JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Type    string `xml:"type,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	cases, failures := 0, []string{}
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			cases++
			if c.Failure != nil {
				failures = append(failures, s.Name+" | "+c.Name+" | "+c.Failure.Type)
			}
		}
	}
	if cases != len(r.Checks) || suites.Tests != cases || suites.Failures != 1 || suites.Skipped != 2 {
		t.Errorf("%d cases of %d checks: %+v", cases, len(r.Checks), suites)
	}
	if d := cmp.Diff([]string{"codes: scales | scales: b.weight.scale | F9"}, failures); d != "" {
		t.Error(d)
	}
}

// TestLevels: a level includes those before it and no other.
func TestLevels(t *testing.T) {
	path := file(t, small(t))
	for i, l := range Levels()[:5] {
		r := run(t, path, Options{Level: l})
		seen := map[Level]bool{}
		for _, c := range r.Checks {
			seen[c.Level] = true
		}
		if len(seen) != i+1 || !seen[l] || r.Level != l {
			t.Errorf("level %s ran %v", l, seen)
		}
	}
}

// TestErrors: what says nothing about the file is an error, not a failed check.
func TestErrors(t *testing.T) {
	path := file(t, small(t))
	for _, c := range []struct {
		name string
		path string
		o    Options
		want error
	}{
		{"no such file", path + "x", Options{}, fs.ErrNotExist},
		{"no such checkpoint", path, Options{Source: path + "x"}, fs.ErrNotExist},
		{"unknown level", path, Options{Level: "all"}, pack.ErrUnsupported},
		{"source without checkpoint", path, Options{Level: Source}, pack.ErrUnsupported},
		{"checkpoint without source", path, Options{Level: Codes, Source: path}, pack.ErrUnsupported},
	} {
		if _, err := Run(context.Background(), c.path, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if _, err := Run(ctx, path, Options{}); !errors.Is(err, stop) {
		t.Errorf("interrupted: %v", err)
	}
	if r := run(t, t.TempDir(), Options{}); r.OK {
		t.Error("a directory passes")
	}
	if _, err := ParseLevel("digest"); err != nil {
		t.Error(err)
	}
}

// TestUnfinished: a checkpoint that is not there ends the verification before any check, and what was checked before
// another error is in a report that is not OK and names the level that could not be finished.
func TestUnfinished(t *testing.T) {
	path := file(t, small(t))
	work := Options{Source: path + "x",
		Progress: func(what string, _, _ int64) { t.Errorf("%s before the checkpoint is opened", what) }}
	if r, err := Run(t.Context(), path, work); !errors.Is(err, fs.ErrNotExist) || r != nil {
		t.Errorf("%v, %v", r, err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := Run(ctx, path, Options{Progress: func(what string, _, _ int64) {
		if strings.HasPrefix(what, string(Kernel)) {
			cancel(stop)
		}
	}})
	if !errors.Is(err, stop) || r == nil || r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"codes ", "kernel  not finished", "stop", "FAIL"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestProgress: every group tells how far it is, and comes to its end.
func TestProgress(t *testing.T) {
	ends := map[string]bool{}
	run(t, file(t, small(t)), Options{Progress: func(what string, done, total int64) {
		if done > total {
			t.Errorf("%s: %d of %d", what, done, total)
		}
		ends[what] = done == total
	}})
	for what, end := range ends {
		if !end {
			t.Errorf("%s did not come to its end", what)
		}
	}
	if len(ends) < 5 {
		t.Errorf("progress of %v", ends)
	}
}

// TestDumpGolden: the dump is the Arrow stream, without padding.
func TestDumpGolden(t *testing.T) {
	m := small(t)
	path := file(t, m)
	var b bytes.Buffer
	if err := DumpGolden(path, &b); err != nil || !bytes.Equal(b.Bytes(), m.Golden(nil)) {
		t.Errorf("%d bytes of %d, %v", b.Len(), m.GoldenSize, err)
	}
	m.Golden, m.GoldenSize = nil, 0
	m.Recipe.Golden = "none"
	if err := DumpGolden(file(t, m), &b); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a file without golden outputs: %v", err)
	}
}

// TestWithoutGolden: the reference then computes what kernels must give, and the report says so; a recipe that promises
// golden outputs must keep its word.
func TestWithoutGolden(t *testing.T) {
	m := small(t)
	m.Golden, m.GoldenSize = nil, 0
	if bad := failed(run(t, file(t, m), Options{})); len(bad) != 1 || bad[0].Rule != "F8" {
		t.Errorf("golden outputs are promised and absent: %v", bad)
	}
	m.Recipe.Golden = packed.GoldenNone
	r := run(t, file(t, m), Options{})
	kernels := 0
	for _, c := range r.Checks {
		if c.Level == Kernel && c.Verdict == Pass {
			kernels++
		}
	}
	if !r.OK || kernels < 3 || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestWrongKernel: when a kernel is wrong, the reference says so and names the row.
func TestWrongKernel(t *testing.T) {
	m := small(t)
	s := begin(t.Context(), file(t, m), Options{}, Source)
	defer s.close()
	if err := s.checkFile(); err != nil || !s.report.OK {
		t.Fatal(err, s.report)
	}
	k := &kernels{session: s}
	e, _ := s.file.Manifest().Entry("b.weight")
	p := &golden.Product{Tensor: e.Name, Seed: 1, Vectors: 2}
	got := make([]int32, 2*21)
	for j, q := range golden.Vectors(1, 2, 52) {
		for row := range 21 {
			for i, c := range m.Quantized[1].Matrix.Codes[row*52 : (row+1)*52] {
				got[j*21+row] += int32(c) * int32(q[i])
			}
		}
	}
	got[21+17]++
	err := k.explain(e, p, got, "the digest differs")
	if err == nil || !strings.Contains(err.Error(), "row 17, product 1 of the row") ||
		!strings.Contains(err.Error(), "the kernel is wrong") {
		t.Error(err)
	}
}

// TestPermission: a file that may not be read is a matter of the environment.
func TestPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := file(t, &sample.Model{Plain: []sample.Plain{sample.F32("x", []float32{1}, 1)},
		Recipe: packed.Recipe{Golden: "none"}})
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), filepath.Clean(path), Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}
