package engine

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/lowpack/lowpack/formats/sampling"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// Sampling says how the next token is sampled from logits.
type Sampling = sampling.Settings

// SamplingOf reads the settings of a model's generation_config.json; see sampling.Parse.
func SamplingOf(generationConfig []byte) (Sampling, error) { return sampling.Parse(generationConfig) }

// Sampler chooses the tokens of one text. It allocates nothing after NewSampler.
type Sampler struct {
	s     Sampling
	state uint64 // of the random number generator
	seen  []bool // tokens of the text so far
	ids   []int  // the same, in order of first appearance
	order order
	exps  []float32 // scratch of total
}

// one is the weight of the largest logit (N29). Weights are integers, so that their sums are exact in any order; the
// weights of mostVocab tokens fit in 64 bits.
const (
	one       = 1 << 40
	mostVocab = 1 << 23
)

// NewSampler makes a sampler for a vocabulary of the given size.
func NewSampler(s Sampling, vocab int) (*Sampler, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if vocab > mostVocab {
		return nil, fmt.Errorf("%w: a vocabulary of %d tokens; sampling takes at most %d", pack.ErrLimit,
			vocab, mostVocab)
	}
	order := order{heap: make([]candidate, 0, vocab), taken: make([]weighted, 0, vocab)}
	return &Sampler{s: s, state: s.Seed, seen: make([]bool, vocab), ids: make([]int, 0, vocab), order: order,
		exps: make([]float32, vocab)}, nil
}

// Accept counts a token as part of the text, for the repetition penalty. Next does not do so itself.
func (s *Sampler) Accept(id int) {
	if !s.seen[id] {
		s.seen[id] = true
		s.ids = append(s.ids, id)
	}
}

// forget removes all but the first n distinct tokens.
func (s *Sampler) forget(n int) {
	for _, id := range s.ids[n:] {
		s.seen[id] = false
	}
	s.ids = s.ids[:n]
}

// Top is the number of largest logits that Next needs, in addition to those in Penalized; 0 = all. See Chunk.
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

// penalty is the repetition penalty, 1 = off.
func (s *Sampler) penalty() float32 {
	if s.s.RepetitionPenalty == 0 {
		return 1
	}
	return s.s.RepetitionPenalty
}

// Next samples a token. The logits are finite, or −Inf where they are not needed (Top). Next modifies them.
func (s *Sampler) Next(logits []float32) int {
	s.penalize(logits)
	if s.s.Temperature == 0 {
		return ArgMax(logits)
	}
	s.order.fill(logits, s.s.Temperature)
	return s.draw(s.cut(logits))
}

// ArgMax is the first token in the order of N21.
func ArgMax(logits []float32) int {
	best := 0
	for i := 0; i < len(logits); i++ {
		top := logits[best]
		for i+3 < len(logits) && logits[i] <= top && logits[i+1] <= top && logits[i+2] <= top && logits[i+3] <= top {
			i += 4 // almost all tokens
		}
		if i < len(logits) && logits[i] > top {
			best = i
		}
	}
	return best
}

// penalize is step 1 (N28).
func (s *Sampler) penalize(logits []float32) {
	p := s.penalty()
	for _, id := range s.Penalized() {
		z := logits[id] * p
		if logits[id] > 0 {
			z = logits[id] / p
		}
		logits[id] = max(-math.MaxFloat32, min(z, math.MaxFloat32))
	}
}

// cut is steps 3 to 5: the number of tokens that remain, and the sum of their weights.
func (s *Sampler) cut(logits []float32) (n int, sum uint64) {
	k := len(logits)
	if s.s.TopK > 0 {
		k = min(k, s.s.TopK)
	}
	total := s.total(logits, k)
	enough := uint64(math.MaxUint64)
	if s.s.TopP > 0 && s.s.TopP < 1 {
		enough = share(uint64(float64(s.s.TopP)*0x1p64), total)
	} else if s.s.MinP == 0 {
		return k, total
	}
	least := uint64(math.Ceil(float64(s.s.MinP) * one))
	for n < k && (n == 0 || sum < enough) {
		w := s.order.at(n).weight
		if w < least {
			break
		}
		sum += w
		n++
	}
	return n, sum
}

// total is the sum of the weights of the k largest logits, without sorting them.
func (s *Sampler) total(logits []float32, k int) (sum uint64) {
	if k < len(logits) {
		for i := range k {
			sum += s.order.at(i).weight
		}
		return sum
	}
	for i, z := range logits {
		s.exps[i] = s.order.scaled(z)
	}
	tensor.Softmax(s.exps) // the largest is 0
	for _, e := range s.exps {
		sum += weight(e)
	}
	return sum
}

// draw is step 6, among the first n tokens, whose weights add up to sum.
func (s *Sampler) draw(n int, sum uint64) int {
	target, run := share(s.random(), sum), uint64(0)
	for i := range n {
		w := s.order.at(i)
		if run += w.weight; run > target {
			return int(w.id)
		}
	}
	panic("engine: weights do not add up to their sum")
}

// share is ⌊part·n / 2⁶⁴⌋.
func share(part, n uint64) uint64 {
	hi, _ := bits.Mul64(part, n)
	return hi
}

// random is the next random number: SplitMix64 (Steele, Lea, Flood 2014).
func (s *Sampler) random() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
