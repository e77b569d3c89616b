//go:build amd64 && !purego

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
)

// TestSpeculationOnEveryModel is TestSpeculationChangesNothing for random models that between them use every feature of
// a description, with windows, pages and passes of several sizes. LOWPACK_LONG=1 has more models, and guesses of each
// length for each of them.
func TestSpeculationOnEveryModel(t *testing.T) {
	accepted, models, lengths := 0, 60, []int{3, 1, 15}
	if !long.All {
		models = 24
	}
	for seed := range uint64(models / race.Every(8)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			v, d := randomModel(t, r, everyFeature)
			e, err := build(v, d, Options{Threads: 1 + r.IntN(4), Batch: 1 + r.IntN(20),
				Cache: caches[r.IntN(len(caches))],
				Page:  32 * r.IntN(2)})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if r.IntN(2) == 0 {
				e.pass.attention.long = 1
			}
			drafts, err := e.newDraftModel(v, d)
			if err != nil {
				t.Fatal(err)
			}
			defer drafts.Close()
			q := Request{Drafts: drafts, MaxTokens: min(20, e.opt.Context-4),
				Sampling: Sampling{Seed: seed, Temperature: float32(r.IntN(3)) * 0.7,
					RepetitionPenalty: 1 + float32(r.IntN(2))*0.4}}
			for range 1 + r.IntN(3) {
				q.Prompt = append(q.Prompt, r.IntN(d.Vocab))
			}
			if long.All {
				accepted += speculateEveryWay(t, e, q, lengths...)
			} else {
				accepted += speculateEveryWay(t, e, q, lengths[seed%3])
			}
		})
	}
	if accepted == 0 {
		t.Error("no guess was right: this test shows nothing")
	}
}
