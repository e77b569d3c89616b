package kernel

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// tuneRounds of tuneBytes with each tuning distinguish 1.26 times as fast from equally fast, with one wrong answer
	// in 200 (Sapphire Rapids, resampled). They take about 3 ms.
	tuneRounds = 9
	tuneBytes  = 1 << 20
	// tuneGain is the minimum gain of another tuning over the table's: less cannot be distinguished from noise in this
	// time.
	tuneGain = 1.1
)

var tuneOnce sync.Once

// TuneBy chooses the tuning of this process if the table does not know its CPU: by the time that some of these matrices
// take with one token. They should be in memory, not in a cache; if there are too few, nothing is measured. It measures
// once, before the first product of the process: only the first call counts.
func TuneBy(list []*Weights) {
	if tunedWhy == unknownCPU && tunedFor.Vendor != "" {
		tuneOnce.Do(func() { tuneBy(list, time.Now) })
	}
}

func tuneBy(list []*Weights, now func() time.Time) {
	slice := tuneSlices(list)
	all := Tunings()
	took := make([][]time.Duration, len(all))
	for range tuneRounds {
		for i := range all {
			mul, ok := slice()
			if !ok {
				tuned = oneStream
				return
			}
			tuned = all[i]
			t := now()
			mul()
			took[i] = append(took[i], now().Sub(t))
		}
	}
	best, usual := 0, slices.IndexFunc(all, func(t Tuning) bool { return t.Name == oneStream.Name })
	for i := range took {
		if slices.Sort(took[i]); took[i][tuneRounds/2] < took[best][tuneRounds/2] {
			best = i
		}
	}
	gain := float64(took[usual][tuneRounds/2]) / float64(took[best][tuneRounds/2])
	if tuned, tunedWhy = all[best], fmt.Sprintf("measured: %.2f times as fast as %s", gain,
		oneStream.Name); gain < tuneGain {
		tuned, tunedWhy = oneStream, "measured: no other is much faster"
	}
}

// tuneSlices returns products of one token with the next tuneBytes of the matrices, each byte of them once; ok is false
// where none are left.
func tuneSlices(list []*Weights) (next func() (mul func(), ok bool)) {
	var x *Activations
	var y []int32
	at := 0 // panel of list[0]
	return func() (func(), bool) {
		for len(list) > 0 {
			w := list[0]
			n := ceilDiv(tuneBytes*w.Panels(), max(w.Bytes(), 1))
			if at+n > w.Panels() {
				list, at = list[1:], 0
				continue
			}
			if at == 0 {
				x, y = NewActivations(1, w.Shape.K), make([]int32, w.Shape.M*w.Groups())
				x.Finish()
				w.Mul(y, w.Shape.M, x, 0, 1) // makes what the kernel wants of x
				at = 1
				continue
			}
			from := at
			at += n
			return func() { w.Mul(y, w.Shape.M, x, from, from+n) }, true
		}
		return nil, false
	}
}
