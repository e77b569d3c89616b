package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/shared"
	"github.com/lowpack/lowpack/pack"
)

// kept is steps 1 to 5 as the comment of Sampling says them: everything sorted, everything in float64.
func kept(s Sampling, logits []float32, seen []bool) (ids []int, weights []float64) {
	z := make([]float64, len(logits))
	for i, v := range logits {
		z[i] = float64(v)
		if p := float64(s.RepetitionPenalty); p != 0 && seen[i] {
			if z[i] > 0 {
				z[i] /= p
			} else {
				z[i] *= p
			}
		}
		z[i] /= float64(s.Temperature)
		ids = append(ids, i)
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case z[a] > z[b]:
			return -1
		case z[a] < z[b]:
			return 1
		}
		return 0
	})
	if s.TopK > 0 {
		ids = ids[:min(s.TopK, len(ids))]
	}
	total := 0.0
	for _, id := range ids {
		weights = append(weights, math.Exp(z[id]-z[ids[0]]))
		total += weights[len(weights)-1]
	}
	sum, n := 0.0, 0
	for n < len(ids) && (s.TopP == 0 || n == 0 || sum < float64(s.TopP)*total) && weights[n] >= float64(s.MinP) {
		sum += weights[n]
		n++
	}
	return ids[:n], weights[:n]
}

// TestSamplerKeepsAndDraws: over many seeds, exactly the tokens that stay by the definition are drawn, each as often as
// its probability says, within five standard deviations.
func TestSamplerKeepsAndDraws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Sampling{
		{Temperature: 1}, {Temperature: 0.7}, {Temperature: 1, TopK: 5}, {Temperature: 1.3, TopK: 1}, {Temperature: 1, TopK: 1000},
		{Temperature: 1, TopP: 0.6}, {Temperature: 1, TopP: 1e-9}, {Temperature: 2, MinP: 0.2}, {Temperature: 1, MinP: 1},
		{Temperature: 0.8, TopK: 12, TopP: 0.9, MinP: 0.05, RepetitionPenalty: 1.3},
	} {
		const vocab, draws = 40, 4000
		logits, seen := make([]float32, vocab), make([]bool, vocab)
		for i := range logits {
			logits[i] = float32(r.IntN(40)-25) / 8 // ties are common
			seen[i] = r.IntN(3) == 0
		}
		ids, weights := kept(s, logits, seen)
		total := 0.0
		for _, w := range weights {
			total += w
		}
		count := make([]int, vocab)
		s.Seed = r.Uint64()
		sampler, err := NewSampler(s, vocab)
		if err != nil {
			t.Fatal(err)
		}
		for id, yes := range seen {
			if yes {
				sampler.Accept(id)
			}
		}
		for range draws {
			count[sampler.Next(slices.Clone(logits))]++
		}
		for i, id := range ids {
			p := weights[i] / total
			if d := math.Abs(float64(count[id]) - p*draws); d > 5*math.Sqrt(draws*p*(1-p))+1e-9 {
				t.Errorf("%+v: token %d was drawn %d times of %d, its probability is %.4f", s, id, count[id], draws, p)
			}
			count[id] = 0
		}
		if i := slices.IndexFunc(count, func(n int) bool { return n > 0 }); i >= 0 {
			t.Errorf("%+v: token %d was drawn and should have been cut off; %v stay", s, i, ids)
		}
	}
}

func TestGreedySampler(t *testing.T) {
	s, err := NewSampler(Sampling{RepetitionPenalty: 2}, 4)
	if err != nil {
		t.Fatal(err)
	}
	next := func(logits ...float32) int { return s.Next(logits) }
	if got := next(1, 3, 3, 2); got != 1 {
		t.Errorf("the first of equals is 1, not %d", got)
	}
	s.Accept(1)
	s.Accept(3)
	if got := next(1, 3, 2.9, 2); got != 2 {
		t.Errorf("a penalty of 2 makes 3 into 1.5: 2 comes first, not %d", got)
	}
	if got := next(-3, -2, -9, -1.4); got != 3 {
		t.Errorf("a penalty of 2 makes −1.4 into −2.8: 3 comes first, not %d", got)
	}
}

func TestSamplingIsChecked(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: nan}, {Temperature: inf}, {TopK: -1}, {TopP: 1.1}, {TopP: -0.1}, {TopP: nan},
		{MinP: 2}, {MinP: -1}, {RepetitionPenalty: -1}, {RepetitionPenalty: nan},
	} {
		if _, err := NewSampler(s, 10); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestSamplerAgainstTransformers: the golden samples were drawn with the settings of generation_config.json from float32
// logits of the golden program. Nearly every token of theirs is among those that stay here; logits that differ by 0.2
// (see golden_test.go) move a token across the border now and then.
func TestSamplerAgainstTransformers(t *testing.T) {
	var g struct {
		Settings struct {
			Temperature       float32
			TopK              int     `json:"top_k"`
			TopP              float32 `json:"top_p"`
			RepetitionPenalty float32 `json:"repetition_penalty"`
		}
		Samples []struct {
			IDs []int
		}
	}
	readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/samples.json"), &g)
	e := engine(t, tiny(t), Options{})
	set := Sampling{Temperature: g.Settings.Temperature, TopK: g.Settings.TopK, TopP: g.Settings.TopP, RepetitionPenalty: g.Settings.RepetitionPenalty}
	const prompt = 20 // tokens at least; the draws begin somewhere before
	in, total := 0, 0
	for _, sample := range g.Samples {
		rows := logits(t, e, sample.IDs[:len(sample.IDs)-1], len(sample.IDs)-1)
		seen := make([]bool, e.desc.Vocab)
		for i, row := range rows {
			seen[sample.IDs[i]] = true
			if i < prompt {
				continue
			}
			total++
			if ids, _ := kept(set, row, seen); slices.Contains(ids, sample.IDs[i+1]) {
				in++
			}
		}
	}
	t.Logf("%d of %d golden tokens stay", in, total)
	if total < 500 || float64(in) < 0.99*float64(total) {
		t.Errorf("%d of %d golden tokens stay", in, total)
	}
}

func TestSamplerAllocatesNothing(t *testing.T) {
	s, err := NewSampler(Sampling{Temperature: 1, TopP: 0.9, MinP: 0.01, RepetitionPenalty: 1.1}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, 1000)
	if a := testing.AllocsPerRun(20, func() {
		for i := range logits {
			logits[i] = float32(i%37) / 7
		}
		s.Accept(s.Next(logits))
	}); a != 0 {
		t.Errorf("choosing a token allocates %v times", a)
	}
}
