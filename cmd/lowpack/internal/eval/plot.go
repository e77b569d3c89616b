package eval

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/plot"
)

// bins bounds the number of points of a line.
const bins = 240

// Plot shows the evaluation by position: the divergence along the text if there was a comparison, else the loss by
// position in the window.
func (r *Result) Plot(title string) plot.Chart {
	if r.Against != nil {
		mean, most := r.bin(func(s *score) int { return s.at }, func(s *score) float64 { return s.kl })
		note := fmt.Sprintf("mean %s nats, largest %s, same argmax token at %s of %d positions",
			plot.Short(r.Against.MeanKL), plot.Short(r.Against.MaxKL), plot.Percent(r.Against.Top1), r.Tokens)
		return &plot.Lines{Title: title, Note: note, X: plot.Axis{Label: "token of the text", Integer: true},
			Y:      plot.Axis{Label: "KL in nats", Log: true},
			Series: []plot.Series{{Name: "mean", Points: mean}, {Name: "largest", Points: most}}}
	}
	mean, _ := r.bin(func(s *score) int { return s.depth }, func(s *score) float64 { return s.nll })
	note := fmt.Sprintf("perplexity %.4g over %d tokens in %d windows of %d", r.Perplexity, r.Tokens,
		r.Windows, r.Window)
	return &plot.Lines{Title: title, Note: note, X: plot.Axis{Label: "tokens of the window in front", Integer: true},
		Y: plot.Axis{Label: "loss in nats per token"}, Series: []plot.Series{{Name: "mean", Points: mean}}}
}

// bin reduces the scores to at most bins points: the mean and the largest value of each stretch of positions.
func (r *Result) bin(position func(*score) int, value func(*score) float64) (mean, most []plot.Point) {
	last := 0
	for i := range r.scores {
		last = max(last, position(&r.scores[i]))
	}
	width := last/bins + 1
	sum, top, count := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for i := range r.scores {
		b, v := position(&r.scores[i])/width, value(&r.scores[i])
		sum[b], top[b], count[b] = sum[b]+v, max(top[b], v), count[b]+1
	}
	for b := range bins {
		if count[b] > 0 {
			x := float64(b*width) + float64(width-1)/2
			mean, most = append(mean, plot.Point{X: x, Y: sum[b] / count[b]}), append(most, plot.Point{X: x, Y: top[b]})
		}
	}
	return mean, most
}
