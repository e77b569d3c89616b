package engine

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tensor"
)

// Sampling says how the next token is chosen from logits. The steps are those of transformers, in its order:
//
//  1. repetition penalty: logits of tokens of the text so far, prompt included, are divided by it if they are positive,
//     else multiplied by it;
//  2. temperature: logits are divided by it;
//  3. top-k: the k largest stay;
//  4. top-p: the smallest set stays whose probabilities, among those that stayed so far, add up to p;
//  5. min-p: those stay that are at least min-p times as probable as the first;
//  6. one of the rest is drawn.
//
// Tokens are taken in the order of their logits, the smaller id first among equals, so that steps 3 to 5 cut off a tail.
// The same logits, settings and seed give the same tokens on every machine: exponentials are tensor.Exp, sums are taken
// in one order, and the random numbers are our own (SplitMix64).
type Sampling struct {
	Temperature       float32 // 0 = always the first token: no other step but the penalty counts
	TopK              int     // 0 = all
	TopP              float32 // 0 or 1 = all
	MinP              float32 // 0 = all
	RepetitionPenalty float32 // 0 or 1 = none
	Seed              uint64
}

// Check refuses settings that have no meaning.
func (s *Sampling) Check() error {
	finite := func(x float32) bool { return tensor.IsFinite(x) && x >= 0 }
	switch {
	case !finite(s.Temperature):
		return fmt.Errorf("%w: temperature %v: it is 0 or larger", pack.ErrUnsupported, s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("%w: top-k %d: it is 0 (all) or larger", pack.ErrUnsupported, s.TopK)
	case !finite(s.TopP) || s.TopP > 1:
		return fmt.Errorf("%w: top-p %v: it lies between 0 and 1", pack.ErrUnsupported, s.TopP)
	case !finite(s.MinP) || s.MinP > 1:
		return fmt.Errorf("%w: min-p %v: it lies between 0 and 1", pack.ErrUnsupported, s.MinP)
	case !finite(s.RepetitionPenalty):
		return fmt.Errorf("%w: repetition penalty %v: it is larger than 0, and 1 for none", pack.ErrUnsupported, s.RepetitionPenalty)
	}
	return nil
}

// Sampler chooses the tokens of one text. It allocates nothing after NewSampler.
type Sampler struct {
	s     Sampling
	state uint64 // of the random numbers
	seen  []bool // tokens of the text so far
	ids   []int  // the same, in the order of their appearance
	order order
	exps  []float32 // scratch
}

// NewSampler makes a sampler for a vocabulary of the given size.
func NewSampler(s Sampling, vocab int) (*Sampler, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	order := order{heap: make([]candidate, 0, vocab), taken: make([]weighted, 0, vocab)}
	return &Sampler{s: s, state: s.Seed, seen: make([]bool, vocab), ids: make([]int, 0, vocab), order: order, exps: make([]float32, vocab)}, nil
}

// Accept counts a token as part of the text, for the repetition penalty. Next does not do so itself.
func (s *Sampler) Accept(id int) {
	if !s.seen[id] {
		s.seen[id] = true
		s.ids = append(s.ids, id)
	}
}

// Top is how many of the largest logits Next looks at, besides those of Penalized; 0 = all. See Chunk.
func (s *Sampler) Top() int {
	if s.s.Temperature == 0 {
		return 1
	}
	return s.s.TopK
}

// Penalized are the tokens whose logits the repetition penalty changes.
func (s *Sampler) Penalized() []int {
	if s.penalty() == 1 {
		return nil
	}
	return s.ids
}

// penalty is 1 where there is none.
func (s *Sampler) penalty() float32 {
	if s.s.RepetitionPenalty == 0 {
		return 1
	}
	return s.s.RepetitionPenalty
}

// Next chooses a token. It changes the logits, which are finite.
func (s *Sampler) Next(logits []float32) int {
	s.penalize(logits)
	if s.s.Temperature == 0 {
		return ArgMax(logits)
	}
	for i := range logits {
		logits[i] /= s.s.Temperature
	}
	s.order.fill(logits)
	n, sum := s.cut(logits)
	return s.draw(n, sum)
}

// ArgMax is the first token in the order of N21.
func ArgMax(logits []float32) int {
	best := 0
	for i, z := range logits {
		if z > logits[best] {
			best = i
		}
	}
	return best
}

// penalize is step 1.
func (s *Sampler) penalize(logits []float32) {
	p := s.penalty()
	for _, id := range s.Penalized() {
		if logits[id] > 0 {
			logits[id] /= p
		} else {
			logits[id] *= p
		}
	}
}

// cut is steps 3 to 5: the number of tokens that stay, and the sum of their weights.
func (s *Sampler) cut(logits []float32) (n int, sum float64) {
	k, total := len(logits), 0.0
	if s.s.TopK > 0 && s.s.TopK < k {
		k = s.s.TopK
		for i := range k {
			total += s.order.at(i).weight
		}
	} else {
		copy(s.exps, logits)
		total = float64(tensor.Softmax(s.exps))
	}
	enough := math.Inf(1)
	if s.s.TopP > 0 && s.s.TopP < 1 {
		enough = float64(s.s.TopP) * total
	} else if s.s.MinP == 0 {
		return k, total
	}
	for n < k && sum < enough {
		w := s.order.at(n).weight
		if n > 0 && w < float64(s.s.MinP) {
			break
		}
		sum += w
		n++
	}
	return n, sum
}

// draw is step 6, among the first n tokens, whose weights add up to sum.
func (s *Sampler) draw(n int, sum float64) int {
	target, run := s.uniform()*sum, 0.0
	for i := range n {
		w := s.order.at(i)
		if run += w.weight; run > target {
			return int(w.id)
		}
	}
	return int(s.order.at(n - 1).id) // the sum was rounded up
}

// uniform is the next random number, 0 ≤ u < 1: SplitMix64 (Steele, Lea, Flood 2014), its upper 53 bits.
func (s *Sampler) uniform() float64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) * 0x1p-53
}
