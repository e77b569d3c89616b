package engine

import "github.com/lowpack/lowpack/internal/tensor"

// Prediction is a row of logits as a distribution (N33). Sums are in float64, in a fixed order, with our own exp and
// log: they are the same on every machine.
type Prediction struct {
	logits  []float32
	weights []float32 // e^(logit − largest)
	largest float64
	sum     float64 // of the weights
	logSum  float64
	top     int
}

// NewPrediction makes the distribution of a row of logits, which must not change meanwhile; scratch has the same length
// and is owned by the Prediction.
func NewPrediction(logits, scratch []float32) *Prediction {
	p := &Prediction{logits: logits, weights: scratch, top: ArgMax(logits)}
	copy(scratch, logits)
	p.largest = float64(logits[p.top])
	tensor.Softmax(scratch)
	for _, w := range scratch {
		p.sum += float64(w)
	}
	p.logSum = tensor.Ln64(p.sum)
	return p
}

// Top is the argmax token (N21).
func (p *Prediction) Top() int { return p.top }

// NLL is −ln of the probability of a token.
func (p *Prediction) NLL(id int) float64 { return p.largest - float64(p.logits[id]) + p.logSum }

// Divergence is KL(p ‖ q). Rounding can make it slightly negative for nearly equal predictions.
func (p *Prediction) Divergence(q *Prediction) float64 {
	sum := 0.0
	for i, w := range p.weights {
		sum += float64(float64(w) * (float64(p.logits[i]) - float64(q.logits[i])))
	}
	return max(0, sum/p.sum-(p.largest-q.largest)-(p.logSum-q.logSum))
}
