package verify

import (
	"context"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
)

// TestJudged: golden outputs that kernels and engine would confirm, because they come from them, are still compared
// with the reference. Each change is one that no kernel and no engine checks here.
func TestJudged(t *testing.T) {
	path := file(t, tinyModel(t))
	judge := func(change func(r *golden.Record)) *Report {
		s := begin(context.Background(), path, Options{}, Logits)
		defer s.close()
		if err := s.run(File); err != nil || s.golden == nil {
			t.Fatalf("no golden outputs: %v", err)
		}
		s.report = &Report{}
		change(s.golden)
		for _, check := range []func() error{s.judgeProducts, s.judgeLogits} {
			if err := check(); err != nil {
				t.Fatal(err)
			}
		}
		return s.report
	}
	for want, change := range map[string]func(r *golden.Record){
		"":                            func(*golden.Record) {},
		"where the reference gives ":  func(r *golden.Record) { r.Products[3].Values[2]++ },
		"where the reference chooses": func(r *golden.Record) { r.Logits[1].Token ^= 1 },
		"with logits":                 func(r *golden.Record) { r.Logits[18].TopLogits[19] *= 2 },
		"tokens [":                    func(r *golden.Record) { r.Logits[18].TopTokens[19] ^= 1 },
		"is another one than the reference gives": func(r *golden.Record) { r.Logits[0].Digest = sum(nil) },
	} {
		report := judge(change)
		failed, texts := 0, ""
		for _, c := range report.Checks {
			if c.Verdict == Fail {
				failed, texts = failed+1, texts+c.Rule+" "+c.Reason
			}
		}
		if want == "" && failed > 0 ||
			want != "" && (failed != 1 || !strings.Contains(texts, want) || !strings.Contains(texts, "F8")) {
			t.Errorf("%q: %d checks fail: %s", want, failed, texts)
		}
		if len(report.Checks) < 20 {
			t.Errorf("%q: only %d checks", want, len(report.Checks))
		}
	}
}

// TestJudgedInRun: both levels compare golden outputs with the reference.
func TestJudgedInRun(t *testing.T) {
	r := run(t, file(t, tinyModel(t)), Options{})
	checks := map[Level]int{}
	for _, c := range r.Checks {
		if c.Group == judged && c.Verdict == Pass {
			checks[c.Level]++
		}
	}
	if checks[Kernel] == 0 || checks[Logits] == 0 {
		t.Errorf("checks against the reference: %v", checks)
	}
}
