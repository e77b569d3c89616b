package engine

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// plain is N28 to N30 as docs/SAMPLING.md states them, without any of the shortcuts of Sampler: everything sorted, sums
// and products of any size. It returns the token for one random number.
func plain(s Sampling, logits []float32, seen []bool, random uint64) int {
	z := slices.Clone(logits)
	for i := range z {
		if p := s.RepetitionPenalty; p != 0 && p != 1 && seen[i] {
			wide := float64(z[i]) * float64(p)
			if z[i] > 0 {
				wide = float64(z[i]) / float64(p)
			}
			z[i] = float32(min(max(wide, -math.MaxFloat32), math.MaxFloat32))
		}
	}
	ids := order21(z)
	if s.Temperature == 0 {
		return ids[0]
	}
	weights := make([]*big.Int, len(ids))
	for i, id := range ids {
		e := tensor.Exp((z[id] - z[ids[0]]) / s.Temperature)
		weights[i] = big.NewInt(int64(math.RoundToEven(float64(e) * (1 << 40))))
	}
	if s.TopK > 0 {
		ids = ids[:min(s.TopK, len(ids))]
	}
	sum := func(n int) *big.Int {
		total := new(big.Int)
		for _, w := range weights[:n] {
			total.Add(total, w)
		}
		return total
	}
	n := len(ids)
	if s.TopP > 0 && s.TopP < 1 {
		product := new(big.Rat).Mul(new(big.Rat).SetFloat64(float64(s.TopP)), new(big.Rat).SetInt(sum(n)))
		enough := new(big.Int).Div(product.Num(), product.Denom())
		for n > 1 && sum(n-1).Cmp(enough) >= 0 {
			n--
		}
	}
	least := new(big.Rat).SetFloat64(float64(s.MinP) * (1 << 40))
	for n > 1 && new(big.Rat).SetInt(weights[n-1]).Cmp(least) < 0 {
		n--
	}
	target := new(big.Int).Mul(new(big.Int).SetUint64(random), sum(n))
	target.Rsh(target, 64)
	for i := range n {
		if sum(i+1).Cmp(target) > 0 {
			return ids[i]
		}
	}
	panic("nothing was drawn")
}

// TestSamplerIsPlain: over random settings, including extreme ones, and random logits, every draw equals plain.
func TestSamplerIsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	of := func(list ...float32) float32 { return list[r.IntN(len(list))] }
	for range 3000 {
		vocab := 1 + r.IntN(60)
		s := Sampling{
			Temperature: of(0, 1e-45, 1e-38, 1e-3, 0.5, 0.7, 1, 1.5, 100, math.MaxFloat32),
			TopK:        []int{0, 0, 1, 3, vocab, 1000}[r.IntN(6)],
			TopP:        of(0, 0, 1e-45, 1e-9, 0.3, 0.5, 0.9, 1-0x1p-24, 1), MinP: of(0, 0, 1e-45, 0x1p-40,
				0.05, 0.5, 1),
			RepetitionPenalty: of(0, 1, 1.1, 1.3, 0.8, 1e-45, math.MaxFloat32), Seed: r.Uint64(),
		}
		logits, seen := make([]float32, vocab), make([]bool, vocab)
		size := of(1e-45, 0.1, 1, 30, 32, math.MaxFloat32)
		for i := range logits {
			logits[i] = float32(r.IntN(33)-16) / 16 * size // ties are common
			seen[i] = r.IntN(3) == 0
		}
		sampler, err := NewSampler(s, vocab)
		if err != nil {
			t.Fatal(err)
		}
		for id, yes := range seen {
			if yes {
				sampler.Accept(id)
			}
		}
		state := s.Seed
		for range 5 {
			want := plain(s, logits, seen, splitMix64(&state))
			if got := sampler.Next(slices.Clone(logits)); got != want {
				t.Fatalf("%+v: token %d, want %d of %v, seen %v", s, got, want, logits, seen)
			}
		}
	}
}

// splitMix64 is the generator of N30.
func splitMix64(x *uint64) uint64 {
	*x += 0x9e3779b97f4a7c15
	z := (*x ^ *x>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// TestArgMax: the first of the largest logits, wherever it is and for every remainder of the length by four.
func TestArgMax(t *testing.T) {
	special := []float64{math.Inf(-1), math.Copysign(0, -1), 0, math.Inf(1), math.NaN()}
	r := rand.New(rand.NewPCG(71, 72))
	for n := 1; n < 40; n++ {
		for round := range 50 {
			logits, want := make([]float32, n), 0
			for i := range logits {
				if logits[i] = float32(r.IntN(n+2) - n); round%2 > 0 && r.IntN(8) == 0 {
					logits[i] = float32(special[r.IntN(len(special))])
				}
				if logits[i] > logits[want] {
					want = i
				}
			}
			if got := ArgMax(logits); got != want {
				t.Fatalf("%v: %d, want %d", logits, got, want)
			}
		}
	}
}

// TestRandomNumbers compares the generator with the first numbers that its authors' program gives for seed 1234567.
func TestRandomNumbers(t *testing.T) {
	s := Sampler{state: 1234567}
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
		16408922859458223821} {
		if got := s.random(); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

// TestTinyTemperature: the lower the temperature, the more certain. At the smallest temperatures, only the first token
// is drawn.
func TestTinyTemperature(t *testing.T) {
	for _, temperature := range []float32{1e-5, 1e-30, 1e-37, 1e-38, 1e-45} {
		s, err := NewSampler(Sampling{Temperature: temperature}, 5)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got := s.Next([]float32{-3, 2, 17, 16, -40}); got != 2 {
				t.Errorf("temperature %v: token %d", temperature, got)
			}
		}
	}
}

// TestWeightsAddUp: the total equals the sum of the drawn weights, to the last bit, for a vocabulary of realistic size;
// so no probability is left over for the last token.
func TestWeightsAddUp(t *testing.T) {
	const vocab = 128256
	r := rand.New(rand.NewPCG(8, 9))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	for _, s := range []Sampling{{Temperature: 1}, {Temperature: 1, TopK: 1000}, {Temperature: 1.5, TopP: 0.99},
		{Temperature: 1, MinP: 1e-6}} {
		sampler, err := NewSampler(s, vocab)
		if err != nil {
			t.Fatal(err)
		}
		sampler.order.fill(logits, s.Temperature)
		n, sum := sampler.cut(logits)
		for i := range n {
			sum -= sampler.order.at(i).weight
		}
		if sum != 0 {
			t.Errorf("%+v: %d of the weights of %d tokens are left over", s, int64(sum), n)
		}
	}
}

// TestChiSquare: 200,000 draws with one seed fit the probabilities that exp in float64 gives, by Pearson's test. The
// bound is the 99.9 % quantile for 39 degrees of freedom.
func TestChiSquare(t *testing.T) {
	const vocab, draws, bound = 40, 200_000, 72.05
	logits, count := make([]float32, vocab), make([]float64, vocab)
	for i := range logits {
		logits[i] = float32(i*7%vocab) / 8
	}
	s := Sampling{Temperature: 0.9, Seed: 42}
	sampler, err := NewSampler(s, vocab)
	if err != nil {
		t.Fatal(err)
	}
	for range draws {
		count[sampler.Next(slices.Clone(logits))]++
	}
	ids, weights := kept(s, logits, make([]bool, vocab))
	total, chi := 0.0, 0.0
	for _, w := range weights {
		total += w
	}
	for i, id := range ids {
		want := weights[i] / total * draws
		chi += (count[id] - want) * (count[id] - want) / want
	}
	t.Logf("χ² = %.1f", chi)
	if chi > bound || chi < 10 { // below 10 draws would be more even than chance
		t.Errorf("χ² = %.1f, want at most %v", chi, bound)
	}
}

// kept is steps 1 to 5 as the comment of Sampling states them: everything sorted, everything in float64.
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

// TestSamplerKeepsAndDraws: over many seeds, exactly the tokens that remain by the definition are drawn, each with its
// probability, within five standard deviations.
func TestSamplerKeepsAndDraws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Sampling{
		{Temperature: 1}, {Temperature: 0.7}, {Temperature: 1, TopK: 5}, {Temperature: 1.3, TopK: 1}, {Temperature: 1,
			TopK: 1000},
		{Temperature: 1, TopP: 0.6}, {Temperature: 1, TopP: 1e-9}, {Temperature: 2, MinP: 0.2},
		{Temperature: 1, MinP: 1},
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

// TestSamplerAgainstTransformers: the golden samples were drawn with the settings of generation_config.json from
// float32 logits of the golden program. Nearly all of these tokens are among those that remain here; logits that differ
// by 0.2 (see golden_test.go) move a token across the border now and then.
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
	set := Sampling{Temperature: g.Settings.Temperature, TopK: g.Settings.TopK, TopP: g.Settings.TopP,
		RepetitionPenalty: g.Settings.RepetitionPenalty}
	const prompt = 20 // at least this many tokens; the draws start somewhere before
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

// BenchmarkSampler draws from a large vocabulary with 50 likely tokens.
func BenchmarkSampler(b *testing.B) {
	const vocab = 128256
	r := rand.New(rand.NewPCG(8, 9))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
		if i%(vocab/50) == 0 {
			logits[i] += 12
		}
	}
	for _, s := range []Sampling{{Temperature: 1}, {Temperature: 0.8, TopK: 20}, {Temperature: 0.8, TopP: 0.95},
		{Temperature: 0.8, MinP: 0.05}, {Temperature: 0.6, TopK: 20, TopP: 0.95}} {
		b.Run(fmt.Sprintf("T=%v,k=%d,p=%v,min=%v", s.Temperature, s.TopK, s.TopP, s.MinP), func(b *testing.B) {
			sampler, err := NewSampler(s, vocab)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				sampler.Next(logits)
			}
		})
	}
}
