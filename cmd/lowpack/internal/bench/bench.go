// Package bench measures: the limits of a machine, the kernels against these limits, and models end to end.
//
// Everything is measured many times, interleaved with what it is compared with, after a warm-up. A figure is the median
// of its repetitions and comes with their spread; a fraction of a limit is the median of fractions within one turn, so
// that a clock or another tenant that changes from minute to minute changes both sides of it. What spreads too much is
// called noise and is not a result.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// ErrNoise: the machine was too busy with other work for meaningful figures.
var ErrNoise = errors.New("noise")

// ErrWrong: a kernel's result differs from the definition.
var ErrWrong = errors.New("wrong result")

// Meter configures measurements.
type Meter struct {
	Time      time.Duration // about how long to repeat each measurement
	MaxSpread float64       // more is noise

	// Progress, if given, is called before every measurement.
	Progress func(done, total int, at string)

	Memory int // bytes that no cache holds; 0 = find out. Tests make do with less
}

// Check refuses invalid settings.
func (m *Meter) Check() error {
	if m.Time < 0 {
		return fmt.Errorf("%w: a measurement of %v", pack.ErrUnsupported, m.Time)
	}
	if !(m.MaxSpread > 0) {
		return fmt.Errorf("%w: a largest spread of %v; it is a fraction above 0", pack.ErrUnsupported, m.MaxSpread)
	}
	return nil
}

func (m *Meter) progress(done, total int, at string) {
	if m.Progress != nil {
		m.Progress(done, total, at)
	}
}

// Quantity summarizes the repetitions of a measurement.
type Quantity struct {
	Median float64 `json:"median"`
	Spread float64 `json:"spread"` // distance between the quartiles, as a fraction of the median
}

// quantity summarizes values, which it sorts.
func quantity(values []float64) Quantity {
	if len(values) == 0 {
		return Quantity{}
	}
	slices.Sort(values)
	q := Quantity{Median: Quantile(values, 0.5)}
	if q.Median > 0 {
		q.Spread = (Quantile(values, 0.75) - Quantile(values, 0.25)) / q.Median
	}
	return q
}

// Quantile returns a quantile of sorted values, linearly interpolated.
func Quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// seconds is the quantity of some times.
func seconds(times []time.Duration) Quantity {
	values := make([]float64, len(times))
	for i, t := range times {
		values[i] = t.Seconds()
	}
	return quantity(values)
}

const (
	fewestTurns = 5 // for quartiles to mean something
	attempts    = 3 // to repeat measurements that turned out to be noise
	mostTurns   = 5000
)

// now is the clock of all measurements. Tests replace it.
var now = time.Now

func since(t time.Time) time.Duration { return now().Sub(t) }

// turns calls the functions interleaved until enough returns true, and returns the duration of each call.
func turns(ctx context.Context, enough func(turns int, since time.Duration) bool,
	functions ...func()) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(functions))
	for start, n := now(), 0; !enough(n, since(start)); n++ {
		for i, f := range functions {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			t := now()
			f()
			took[i] = append(took[i], max(since(t), 1))
		}
	}
	return took, nil
}

// sample measures functions interleaved for m.Time, after a warm-up.
func (m *Meter) sample(ctx context.Context, functions ...func()) ([][]time.Duration, error) {
	warm := func(n int, d time.Duration) bool { return n > 0 && d >= m.Time/10 }
	if _, err := turns(ctx, warm, functions...); err != nil {
		return nil, err
	}
	return turns(ctx, func(n int, d time.Duration) bool { return n >= fewestTurns && (d >= m.Time || n >= mostTurns) },
		functions...)
}

// steady measures until the result is not noise, some times at most, and returns the attempt with the least spread.
func steady[R any](m *Meter, measure func() (R, error), spread func(R) float64) (best R, err error) {
	for i := range attempts {
		r, err := measure()
		if err != nil {
			return best, err
		}
		if i == 0 || spread(r) < spread(best) {
			best = r
		}
		if spread(best) <= m.MaxSpread {
			break
		}
	}
	return best, nil
}

// noise returns the error of a report in which some figures are noise; nil if none are.
func (m *Meter) noise(bad, all int) error {
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d measurements spread by more than %.3g %%: they are marked and are not results; "+
		"leave the machine to this program, measure longer, or say what spread to accept",
		ErrNoise, bad, all, 100*m.MaxSpread)
}
