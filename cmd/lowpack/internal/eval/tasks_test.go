package eval

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// TestBootstrap compares with the known deviation of a mean, √(p(1−p)/n), within the 2.2 % that 1,000 samples leave of
// it, times four.
func TestBootstrap(t *testing.T) {
	for _, n := range []int{50, 1000} {
		for _, yes := range []int{n / 10, n / 2} {
			values := make([]float64, n)
			for i := range yes {
				values[i] = 1
			}
			p := float64(yes) / float64(n)
			f, want := bootstrap(values, same), math.Sqrt(p*(1-p)/float64(n))
			if f.Value != p || math.Abs(f.Error/want-1) > 0.09 {
				t.Errorf("%d of %d: %v ± %v, want ± %v", yes, n, f.Value, f.Error, want)
			}
			if again := bootstrap(values, same); again != f {
				t.Errorf("%v, and %v", f, again)
			}
			// The deviation of e^mean is e^mean times that of the mean, if that is small.
			if e := bootstrap(values, exp); n == 1000 && math.Abs(e.Error/(e.Value*want)-1) > 0.1 {
				t.Errorf("e^mean: %v ± %v, want ± %v", e.Value, e.Error, e.Value*want)
			}
		}
	}
	if f := bootstrap([]float64{0.25, 0.25}, same); f != (Figure{0.25, 0}) {
		t.Errorf("without a deviation: %v", f)
	}
	if f := bootstrap([]float64{0, 1}, same); math.Abs(f.Error-math.Sqrt(0.125)) > 0.02 {
		t.Errorf("two values: %v", f)
	}
}

// TestJudgeCloze: endings with their lengths and without; the first of two that are equal; pairs.
func TestJudgeCloze(t *testing.T) {
	list := []questions.Question{
		{Endings: []string{"éé", "bbbb"}, Right: 1},
		{Endings: []string{"éé", "bbbb"}, Right: 0},
		{Endings: []string{"éé", "bbbb"}, Right: 0},
		{Endings: []string{"éé", "bbbb"}, Right: 0},
	}
	answers := []Answer{
		{LogLikelihoods: []float64{-3, -5}},    // picks 0; by length −1.5, −1.25: 1
		{LogLikelihoods: []float64{-2, -2}},    // picks 0; by length 1
		{LogLikelihoods: []float64{-1, -2}},    // picks 0; by length 0, as both have −0.5
		{LogLikelihoods: []float64{-3, -2.75}}, // picks 1; by length 1
	}
	other := []Answer{answers[0], {LogLikelihoods: []float64{-2, -1}}, answers[2], {LogLikelihoods: []float64{-1, -9}}}
	r := Judge(questions.Cloze, list, answers, other)
	if r.Questions != 4 || r.Acc.Value != 0.5 || r.AccNorm.Value != 0.5 || r.Perplexity != nil {
		t.Errorf("%+v", r)
	}
	a := r.Against
	if a.Scores.Acc.Value != 0.5 || a.Scores.AccNorm.Value != 0.75 || a.Change.Acc.Value != 0 ||
		a.Change.AccNorm.Value != -0.25 || a.Agreement.Value != 0.5 || a.Change.Perplexity != nil {
		t.Errorf("%+v", a)
	}
	// The difference has the error of pairs: two of four differ, by 1 and −1.
	if e := a.Change.Acc.Error; math.Abs(e-math.Sqrt(0.5/4)) > 0.03 || a.Change.AccNorm.Error <= 0 {
		t.Errorf("errors %v, %v", e, a.Change.AccNorm.Error)
	}
	if same := Judge(questions.Cloze, list, answers, answers).Against; same.Change.Acc != (Figure{}) ||
		*same.Change.AccNorm != (Figure{}) || same.Agreement != (Figure{1, 0}) || same.Scores.Acc != r.Acc {
		t.Errorf("against itself: %+v", same)
	}
}

// TestJudgeLastWord: a word is right if it is greedy.
func TestJudgeLastWord(t *testing.T) {
	list := make([]questions.Question, 4)
	answers := []Answer{{[]float64{-1}, []bool{true}}, {[]float64{-2}, []bool{false}}, {[]float64{-3}, []bool{true}},
		{[]float64{-6}, []bool{false}}}
	other := []Answer{{[]float64{-2}, []bool{false}}, {[]float64{-3}, []bool{false}}, {[]float64{-4}, []bool{true}},
		{[]float64{-7}, []bool{false}}}
	r := Judge(questions.LastWord, list, answers, other)
	if r.Acc.Value != 0.5 || math.Abs(r.Perplexity.Value/math.Exp(3)-1) > 1e-12 || r.AccNorm != nil {
		t.Errorf("%+v", r)
	}
	a := r.Against
	if a.Scores.Acc.Value != 0.25 || a.Change.Acc.Value != 0.25 || a.Agreement.Value != 0.75 ||
		math.Abs(a.Change.Perplexity.Value/math.Exp(-1)-1) > 1e-12 || a.Change.Perplexity.Error > 1e-9 {
		t.Errorf("%+v", a)
	}
	if alone := Judge(questions.LastWord, list, answers, nil); alone.Against != nil || alone.Scores.Acc != r.Acc {
		t.Errorf("%+v", alone)
	}
}

func tinySubject(t *testing.T) *Subject {
	t.Helper()
	m, err := lowpack.Open(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &Subject{Engine: m.Engine, Encode: func(s string) ([]int, error) { return m.Tokenizer.Encode(s, false) }}
}

func ask(ctx context.Context, s *Subject, list []questions.Question) ([]Answer, error) {
	asked, err := s.Tokenize(ctx, list, func(int) {})
	if err != nil {
		return nil, err
	}
	return Ask(ctx, s, asked, func(int) {})
}

// TestAsk compares with Run, whose windows begin anew: the answer to an ending is the loss of its tokens, with what
// precedes it and without what other endings have left.
func TestAsk(t *testing.T) {
	s := tinySubject(t)
	q := questions.Question{Context: "The river ran down to the old mill, and the old man ", Endings: []string{
		"went away.", "saw that the river had no water at all.", "sang", ""}}
	for _, bare := range []bool{false, true} {
		s.Bare = bare
		got, err := ask(context.Background(), s, []questions.Question{q, q})
		if err != nil || !reflect.DeepEqual(got[0], got[1]) {
			t.Fatal(got, err)
		}
		context, _ := s.Encode(strings.TrimSuffix(q.Context, " "))
		for i, ending := range q.Endings {
			ids, _ := s.Encode(q.Context + ending)
			r := run(t, s.Engine, nil, ids, Options{Bare: bare})
			want, greedy := 0.0, true
			for _, score := range r.scores {
				if score.at >= len(context) {
					want -= score.nll
					greedy = greedy && score.greedy
				}
			}
			if got[0].LogLikelihoods[i] != want || got[0].Greedy[i] != greedy || (ending != "" && want >= 0) {
				t.Errorf("bare %t, %q: %v, %t; want %v, %t", bare, ending, got[0].LogLikelihoods[i], got[0].Greedy[i],
					want, greedy)
			}
		}
	}
}

// TestAskCut: of a question that is longer than the model can read, each ending gets as many of the last tokens as fit,
// without what other endings have left.
func TestAskCut(t *testing.T) {
	s := tinySubject(t)
	q := questions.Question{Context: strings.Repeat("The river ran down to the old mill, and ", 40),
		Endings: []string{"went away.", "sang", "saw that the river had no water at all.", "sang"}}
	asked, err := s.Tokenize(t.Context(), []questions.Question{{Context: "and ", Endings: q.Endings}, q}, func(int) {})
	if err != nil || asked[0].Cut || !asked[1].Cut {
		t.Fatalf("%+v: %v", asked, err)
	}
	long, begin := &asked[1], s.Engine.Description().BOS
	copy(long.context, slices.Repeat([]int{begin}, 300)) // wherever it is cut, run reads the same after its own
	got, err := Ask(t.Context(), s, asked, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, ending := range long.endings {
		ids := slices.Concat(long.context, ending)
		cut := len(ids) - 257
		r, want := run(t, s.Engine, nil, ids[cut+1:], Options{}), 0.0
		for _, score := range r.scores[len(r.scores)-len(ending):] {
			want -= score.nll
		}
		if ids[cut] != begin || cut < 50 || got[1].LogLikelihoods[i] != want {
			t.Errorf("%q, %d tokens left out: %v, want %v", q.Endings[i], cut, got[1].LogLikelihoods[i], want)
		}
	}
}

// TestGreedy: what the model would write is greedy.
func TestGreedy(t *testing.T) {
	s := tinySubject(t)
	ids, _ := s.Encode("Once upon a time there was a little")
	r := run(t, s.Engine, nil, ids, Options{})
	n := 0
	for _, score := range r.scores {
		if score.greedy {
			n++
		}
	}
	if n == 0 || n == len(r.scores) {
		t.Errorf("%d of %d tokens are greedy", n, len(r.scores))
	}
}

// TestAskWithin: a question fits if all but the last token of each ending can be read, in a window or at all.
func TestAskWithin(t *testing.T) {
	s := tinySubject(t)
	for n := range 300 {
		q := questions.Question{Context: strings.Repeat("a ", n+1), Endings: []string{"b"}}
		ids, _ := s.Encode(q.Context + "b")
		asked, err := s.Tokenize(t.Context(), []questions.Question{q}, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		for window, want := range map[int]bool{0: len(ids) <= 256, 5000: !asked[0].Cut, 100: len(ids) <= 100} {
			if fits, err := s.Within(window)(&q); err != nil || fits != want {
				t.Errorf("%d tokens in a window of %d: %t, %v", len(ids), window, fits, err)
			}
		}
	}
	q := questions.Question{Context: "a ", Endings: []string{"b"}}
	asked := 0
	s.Encode = func(string) ([]int, error) { asked++; return []int{1}, nil }
	if fits, err := s.Within(0)(&q); asked != 1 || !fits || err != nil {
		t.Errorf("%d texts tokenized: %t, %v", asked, fits, err)
	}
	s.Encode = func(string) ([]int, error) { return nil, pack.ErrCorrupt }
	if _, err := s.Within(0)(&q); !errors.Is(err, pack.ErrCorrupt) {
		t.Error(err)
	}
}

func TestAskRefuses(t *testing.T) {
	s := tinySubject(t)
	s.Path = "model.file"
	none := *s
	none.Encode, none.Bare = func(string) ([]int, error) { return nil, nil }, true
	failed := *s
	failed.Encode = func(string) ([]int, error) { return nil, pack.ErrCorrupt }
	for _, c := range []struct {
		s    *Subject
		end  string
		is   error
		word string
	}{
		{s, strings.Repeat("long ", 300), pack.ErrUnsupported, "at most 256"},
		{&none, "end", pack.ErrUnsupported, "no tokens"},
		{&failed, "end", pack.ErrCorrupt, ""},
	} {
		list := []questions.Question{{Context: "short ", Endings: []string{"end", c.end}}}
		if _, err := c.s.Tokenize(t.Context(), list, func(int) {}); !errors.Is(err, c.is) ||
			!strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), "model.file: question ") {
			t.Errorf("%.20q: %v", c.end, err)
		}
	}
	bytewise := Subject{Engine: s.Engine, Encode: func(s string) ([]int, error) { return make([]int, len(s)), nil }}
	for n, refused := range map[int]bool{256: false, 257: true} {
		q := questions.Question{Context: "short", Endings: []string{strings.Repeat("x", n)}}
		if _, err := bytewise.Tokenize(t.Context(), []questions.Question{q}, func(int) {}); (err != nil) != refused {
			t.Errorf("an ending of %d tokens: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	list := []questions.Question{{Context: "short", Endings: []string{"end"}}}
	if _, err := s.Tokenize(ctx, list, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while tokenizing: %v", err)
	}
	told := 0
	asked, err := s.Tokenize(t.Context(), slices.Repeat(list, 3), func(done int) { told = 10*told + done })
	if err != nil || told != 123 {
		t.Errorf("told %d: %v", told, err)
	}
	if _, err := Ask(ctx, s, asked, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := ask(context.Background(), s, list); err != nil { // the sequence was given back
		t.Error(err)
	}
}
